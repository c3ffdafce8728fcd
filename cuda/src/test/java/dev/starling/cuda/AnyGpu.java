package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.tensor.Device;

/** A GPU for tests: a real one where there is one, else an emulated one. */
final class AnyGpu {
    private AnyGpu() { }

    static boolean isThere() {
        return GpuConformanceTest.isThere() || Emulation.isPossible();
    }

    static Device device() {
        return GpuConformanceTest.isThere() ? GpuConformanceTest.DEVICE : Device.of("cuda-emulated", 0);
    }
}
