package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.CapturedWork;
import dev.starling.tensor.Device;
import java.util.List;

/**
 * The GPU of a test: a real one if the machine has one, otherwise an emulated one, with a fake driver and fake
 * libraries where these are available.
 */
final class AnyGpu {
    private static final long UNLIMITED = Long.MAX_VALUE / 2;

    private AnyGpu() { }

    static boolean isAvailable() {
        return GpuConformanceTest.isAvailable() || Emulation.isAvailable();
    }

    static Device device() {
        return GpuConformanceTest.isAvailable() ? GpuConformanceTest.DEVICE : Device.of("cuda-emulated",
                FakeLibraries.areAvailable() ? EmulatedProvider.WITH_LIBRARIES : 0);
    }

    /** Returns that GPU and, if it has fake libraries, another without libraries. */
    static List<Device> devices() {
        return device().index() == EmulatedProvider.WITH_LIBRARIES
                ? List.of(Device.of("cuda-emulated", EmulatedProvider.WITH_DRIVER), device()) : List.of(device());
    }

    /** Limits the memory that an emulated GPU has left. */
    static void limitMemory(long bytes) {
        if (device().index() == EmulatedProvider.WITH_LIBRARIES) {
            FakeDriver.limitMemory(bytes);
        } else {
            Emulation.limitMemory(bytes);
        }
    }

    /** Removes the limit of memory. */
    static void unlimitMemory() {
        limitMemory(UNLIMITED);
    }

    /** Returns how many launches of graphs emulated GPUs have run. */
    static long graphLaunches() {
        return CapturedWork.runs() + (FakeLibraries.areAvailable() ? FakeDriver.count("runs") : 0);
    }

    /** Returns how many operations fake libraries have computed. */
    static long computedByLibraries() {
        return FakeLibraries.areAvailable() ? FakeLibraries.computed() : 0;
    }
}
