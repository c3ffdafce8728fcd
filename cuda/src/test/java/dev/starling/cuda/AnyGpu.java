package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedDriver;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.cuda.gpu.TakenDown;
import dev.starling.tensor.Device;

/**
 * A GPU for tests: a real one where there is one, else an emulated one, driven by a played driver where that is
 * possible.
 */
final class AnyGpu {
    private static final long PLENTY = Long.MAX_VALUE / 2;

    private AnyGpu() { }

    static boolean isThere() {
        return GpuConformanceTest.isThere() || Emulation.isPossible();
    }

    static Device device() {
        return GpuConformanceTest.isThere() ? GpuConformanceTest.DEVICE : Device.of("cuda-emulated",
                PlayedLibraries.arePossible() ? EmulatedProvider.DRIVEN : 0);
    }

    /** Leaves so much memory to be asked for, where it is not a real one. */
    static void leave(long bytes) {
        if (PlayedLibraries.arePossible()) {
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
}
