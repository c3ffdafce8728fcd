package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedDriver;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.cuda.gpu.TakenDown;
import dev.starling.tensor.Device;
import java.util.List;

/**
 * A GPU for tests: a real one where there is one, else an emulated one, driven by a played driver and with played
 * libraries where that is possible.
 */
final class AnyGpu {
    private static final long PLENTY = Long.MAX_VALUE / 2;

    private AnyGpu() { }

    static boolean isThere() {
        return GpuConformanceTest.isThere() || Emulation.isPossible();
    }

    static Device device() {
        return GpuConformanceTest.isThere() ? GpuConformanceTest.DEVICE : Device.of("cuda-emulated",
                PlayedLibraries.arePossible() ? EmulatedProvider.EQUIPPED : 0);
    }

    /** Returns that GPU and, where it has played libraries, one without them. */
    static List<Device> devices() {
        return device().index() == EmulatedProvider.EQUIPPED
                ? List.of(Device.of("cuda-emulated", EmulatedProvider.DRIVEN), device()) : List.of(device());
    }

    /** Leaves so much memory to be asked for, where it is not a real one. */
    static void leave(long bytes) {
        if (device().index() == EmulatedProvider.EQUIPPED) {
            PlayedDriver.leave(bytes);
        } else {
            Emulation.leave(bytes);
        }
    }

    /** Leaves as much as anybody may want. */
    static void leaveAll() {
        leave(PLENTY);
    }

    /** Returns how often graphs were run, where it is not a real one. */
    static long runs() {
        return TakenDown.runs() + (PlayedLibraries.arePossible() ? PlayedDriver.count("runs") : 0);
    }

    /** Returns how much played libraries have computed. */
    static long byLibraries() {
        return PlayedLibraries.arePossible() ? PlayedLibraries.computed() : 0;
    }
}
