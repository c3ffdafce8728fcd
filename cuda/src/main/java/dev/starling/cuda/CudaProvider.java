package dev.starling.cuda;

import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.cuda.gpu.Redist;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Library;
import dev.starling.tensor.spi.Probe;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Offers the machine's NVIDIA GPUs, or reports what the machine lacks. */
public final class CudaProvider implements BackendProvider {
    /** The oldest driver interface that the libraries of CUDA 13 run on. */
    private static final int MIN_DRIVER = 13000;
    /** The oldest architecture that NVRTC of CUDA 13 compiles for, as 10·major + minor. */
    private static final int MIN_CAPABILITY = 75;
    private static final Pattern MISSING_LIBRARY = Pattern.compile("(lib\\w+\\.so[.\\d]*|\\w+\\.dll): cannot open");

    @Override
    public String type() {
        return "cuda";
    }

    @Override
    public Probe probe() {
        if (!isOnLoaderPath(System.getProperty("os.name").startsWith("Windows") ? "nvcuda.dll" : "libcuda.so.1")) {
            return new Probe.Missing("this machine has no NVIDIA driver",
                    "use Device.cpu(), or a machine with an NVIDIA GPU and a driver for CUDA 13 (580 or newer)");
        }
        try {
            return detect();
        } catch (LinkageError e) {
            return missingLibrary(e);
        } catch (GpuException e) {
            return new Probe.Missing("the NVIDIA driver does not work: " + e.getMessage(),
                    "check that nvidia-smi lists the GPU and, in a container, that it was started with --gpus all");
        }
    }

    private static Probe detect() {
        int devices = NvidiaGpu.count();
        List<Card> cards = new ArrayList<>();
        for (int i = 0; i < devices; i++) {
            cards.add(new Card(NvidiaGpu.describe(i), NvidiaGpu.capability(i)));
        }
        Probe found = assess(NvidiaGpu.driverVersion(), cards);
        return found instanceof Probe.Ready(int usable, String description) ? new Probe.Ready(usable, description + ", "
                + new Nvrtc().version().replaceAll(" --.*", "")) : found;
    }

    /**
     * A GPU as the driver describes it.
     *
     * @param description name, memory and compute capability
     * @param capability compute capability, as 10·major + minor
     */
    record Card(String description, int capability) { }

    /** Returns how many GPUs are usable: those before the first that is too old, if the driver is new enough. */
    static Probe assess(int driver, List<Card> cards) {
        if (driver < MIN_DRIVER) {
            return new Probe.Missing("the NVIDIA driver supports CUDA " + version(driver) + ", Starling needs 13.0",
                    "install driver 580 or newer");
        }
        if (cards.isEmpty()) {
            return new Probe.Missing("the NVIDIA driver finds no GPU", "check that nvidia-smi lists a GPU");
        }
        int usable = 0;
        while (usable < cards.size() && cards.get(usable).capability >= MIN_CAPABILITY) {
            usable++;
        }
        if (usable == 0) {
            return new Probe.Missing("the GPU is too old: " + cards.getFirst().description + "; CUDA 13 needs compute "
                    + "capability 7.5",
                    "use Device.cpu(), or list a newer GPU of this machine first in CUDA_VISIBLE_DEVICES");
        }
        String many = usable > 1 ? usable + " × " : "";
        String rest = usable == cards.size() ? "" : ", excluding those that are too old (from "
                + cards.get(usable).description + " on)";
        return new Probe.Ready(usable, many + cards.getFirst().description + rest + ", driver for CUDA "
                + version(driver));
    }

    private static String version(int number) {
        return number / 1000 + "." + number % 1000 / 10;
    }

    private static boolean isOnLoaderPath(String library) {
        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup.libraryLookup(library, arena);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** Names the library that the bindings lack, if the loader's message has its name. */
    static Probe.Missing missingLibrary(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause()) {
            Matcher m = MISSING_LIBRARY.matcher(String.valueOf(e.getMessage()));
            if (m.find()) {
                return new Probe.Missing("the CUDA library " + m.group(1) + " is missing",
                        Redist.remedy("CUDA 13", ""));
            }
        }
        return new Probe.Missing("the CUDA libraries cannot be loaded: " + error, Redist.remedy("CUDA 13", ""));
    }

    @Override
    public List<Library> libraries() {
        return probe() instanceof Probe.Ready ? InstalledLibraries.detect() : List.of();
    }

    @Override
    public Backend open(Device device) {
        return new CudaBackend(device, new NvidiaGpu(device.index()), Libraries::nvidia);
    }
}
