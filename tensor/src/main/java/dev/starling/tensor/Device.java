package dev.starling.tensor;

import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Library;
import dev.starling.tensor.spi.MemoryUse;
import dev.starling.tensor.spi.Probe;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A processor that holds tensors and runs operations. There is one instance per device; its backend opens at first use.
 */
public final class Device {
    private static final Map<String, Device> DEVICES = new ConcurrentHashMap<>();
    private static final ScopedValue<Device> CURRENT = ScopedValue.newInstance();
    private static final Device CPU = of("cpu", 0);
    private static final Device REFERENCE = of("reference", 0);

    private final String type;
    private final int index;
    private final String text;
    private volatile @Nullable Backend backend;

    private Device(String type, int index) {
        this.type = type;
        this.index = index;
        text = index == 0 && !type.equals("cuda") ? type : type + ":" + index;
    }

    /** Returns the CPU with its fast kernels. */
    public static Device cpu() {
        return CPU;
    }

    /** Returns the slow device that defines every operation in double precision; tests use it as their oracle. */
    public static Device reference() {
        return REFERENCE;
    }

    /** Returns an NVIDIA GPU. If there is none, its first use fails with the reason and a remedy. */
    public static Device cuda(int index) {
        return of("cuda", index);
    }

    /**
     * Returns the device with this backend type and index. If there is none, its first use fails.
     *
     * @throws TensorException if the index is negative
     */
    public static Device of(String type, int index) {
        if (index < 0) {
            throw new TensorException(TensorException.Problem.DEVICE, "device " + type, List.of(),
                    "the device index must be >= 0, got " + index, "count devices from 0");
        }
        String name = type + ":" + index;
        Device known = DEVICES.get(name);
        if (known != null) {
            return known;
        }
        Device made = new Device(type, index);
        Device other = DEVICES.putIfAbsent(name, made);
        return other != null ? other : made;
    }

    /**
     * Returns the device on which factories without a device parameter make tensors: the CPU, or the one set with
     * {@link #with}.
     */
    public static Device current() {
        return CURRENT.isBound() ? CURRENT.get() : CPU;
    }

    /** Runs {@code body} with {@code device} as this thread's {@link #current} device. */
    public static <T> T with(Device device, Supplier<T> body) {
        return ScopedValue.where(CURRENT, device).call(body::get);
    }

    /** Returns, by device type, what each backend on the class path or module path finds on this machine. */
    public static Map<String, Probe> probes() {
        Map<String, Probe> found = new TreeMap<>();
        for (BackendProvider provider : providers()) {
            found.put(provider.type(), provider.probe());
        }
        return found;
    }

    /**
     * Returns native libraries of this machine's backends, including those that are missing, beside what
     * {@link #probes} describes. May take seconds.
     */
    public static List<Library> libraries() {
        List<Library> found = new ArrayList<>();
        for (BackendProvider provider : providers()) {
            found.addAll(provider.libraries());
        }
        return found;
    }

    private static Iterable<BackendProvider> providers() {
        requireNativeAccess();
        return ServiceLoader.load(BackendProvider.class, Device.class.getClassLoader());
    }

    /** Throws if the JVM denies this module native memory, in which all tensors lie. */
    private static void requireNativeAccess() {
        try {
            MemorySegment.NULL.reinterpret(0);
        } catch (IllegalCallerException e) {
            Module module = Device.class.getModule();
            throw new TensorException(TensorException.Problem.DEVICE, "devices", List.of(), "the JVM denies access to "
                    + "native memory: " + e.getMessage(), "start Java with --enable-native-access="
                    + (module.isNamed() ? module.getName() : "ALL-UNNAMED, or add Enable-Native-Access: ALL-UNNAMED to "
                    + "the manifest of the jar that java -jar starts"));
        }
    }

    /** Returns the backend's type, for example {@code cpu}. */
    public String type() {
        return type;
    }

    /** Returns the index among the devices of its type. */
    public int index() {
        return index;
    }

    /**
     * Returns the backend.
     *
     * @throws TensorException if there is no such device, with reason and remedy
     */
    public Backend backend() {
        Backend b = backend;
        return b != null ? b : open();
    }

    /** Returns how much of the device's memory is in use and how much is cached. */
    public MemoryUse memory() {
        return backend().memory().use();
    }

    private synchronized Backend open() {
        if (backend != null) {
            return backend;
        }
        for (BackendProvider provider : providers()) {
            if (provider.type().equals(type)) {
                if (index < provider.certain()) {
                    backend = provider.open(this);
                    return backend;
                }
                switch (provider.probe()) {
                    case Probe.Missing missing -> throw new TensorException(TensorException.Problem.DEVICE,
                            "device " + this, List.of(), missing.reason(), missing.remedy());
                    case Probe.Ready ready -> {
                        if (index >= ready.devices()) {
                            throw new TensorException(TensorException.Problem.DEVICE, "device " + this, List.of(),
                                    "there are " + ready.devices() + " devices of this type", "use a smaller index");
                        }
                        backend = provider.open(this);
                        return backend;
                    }
                }
            }
        }
        throw new TensorException(TensorException.Problem.DEVICE, "device " + this, List.of(),
                "no backend of type " + type + " is on the class path", isOwn()
                        ? "merge the files META-INF/services/" + BackendProvider.class.getName() + " of all jars where "
                        + "they are merged into one" : type.equals("cuda") ? "add dev.starling:starling-cuda"
                        : "use cpu, cuda or reference, or add the jar with this backend");
    }

    /** Returns whether the backend is part of the same jar as this class. */
    private boolean isOwn() {
        return type.equals(CPU.type) || type.equals(REFERENCE.type);
    }

    @Override
    public String toString() {
        return text;
    }
}
