package dev.starling.cuda;

import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Offers NVIDIA GPUs, or tells what this machine lacks. */
public final class CudaProvider implements BackendProvider {
    /** The oldest driver interface that libraries of CUDA 13 run on. */
    private static final int LEAST_DRIVER = 13000;
    private static final Pattern MISSING_LIBRARY = Pattern.compile("(lib\\w+\\.so[.\\d]*): cannot open");

    @Override
    public String type() {
        return "cuda";
    }

    @Override
    public Probe probe() {
        if (!isOnLoaderPath(System.getProperty("os.name").startsWith("Windows") ? "nvcuda.dll" : "libcuda.so.1")) {
            return new Probe.Missing("there is no NVIDIA driver on this machine",
                    "use Device.cpu(), or a machine with an NVIDIA GPU and a driver for CUDA 13 (580 or newer)");
        }
        try {
            return look();
        } catch (LinkageError e) {
            return missingLibrary(e);
        } catch (GpuException e) {
            return new Probe.Missing("the NVIDIA driver does not work: " + e.getMessage(),
                    "see whether nvidia-smi lists the GPU; in a container, whether it was given one (--gpus all)");
        }
    }

    private static Probe look() {
        int devices = NvidiaGpu.count();
        int driver = NvidiaGpu.driverVersion();
        if (driver < LEAST_DRIVER) {
            return new Probe.Missing("the NVIDIA driver serves CUDA " + version(driver) + ", 13.0 is needed",
                    "install driver 580 or newer");
        }
        if (devices == 0) {
            return new Probe.Missing("the NVIDIA driver finds no GPU", "see whether nvidia-smi lists one");
        }
        String many = devices > 1 ? devices + " × " : "";
        return new Probe.Ready(devices, many + NvidiaGpu.describe(0) + ", driver for CUDA " + version(driver) + ", "
                + new Nvrtc().version().replaceAll(" --.*", ""));
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

    /** Names the library that the bindings miss, where the loader says which. */
    static Probe.Missing missingLibrary(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause()) {
            Matcher m = MISSING_LIBRARY.matcher(String.valueOf(e.getMessage()));
            if (m.find()) {
                return new Probe.Missing("the CUDA library " + m.group(1) + " is missing",
                        "install CUDA 13 and put its lib64 directory on LD_LIBRARY_PATH, or add "
                        + "org.bytedeco:cuda-redist:13.1-9.19-1.5.13 with classifier linux-x86_64 to the class path");
            }
        }
        return new Probe.Missing("the CUDA libraries do not load: " + error,
                "install CUDA 13 and put its lib64 directory on LD_LIBRARY_PATH");
    }

    @Override
    public Backend open(Device device) {
        return new CudaBackend(device, new NvidiaGpu(device.index()), Libraries.nvidia(CudnnFamily.wanted()));
    }
}
