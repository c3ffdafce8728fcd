package dev.starling.cuda;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;

/**
 * Offers the backend over emulated GPUs: {@code Device.of("cuda-emulated", 0)} has Starling's own kernels only, index 1
 * and 2 have fake libraries too. {@link #ISOLATED} is like the first, for tests that count what is compiled.
 * {@link #WITH_DRIVER} runs on a fake driver, as real GPUs do on NVIDIA's; so does {@link #WITH_LIBRARIES}, which has
 * all fake libraries, whose work its graphs capture too; {@link #SECOND} is another such. Those from {@link #REORDERED}
 * on are like the first, with other orders of blocks and warps.
 */
public final class EmulatedProvider implements BackendProvider {
    static final int ISOLATED = 3;
    static final int WITH_DRIVER = 4;
    static final int WITH_LIBRARIES = 5;
    static final int SECOND = 6;
    static final int REORDERED = 7;
    /** The number of devices. */
    static final int DEVICES = 10;

    @Override
    public String type() {
        return "cuda-emulated";
    }

    @Override
    public Probe probe() {
        return Emulation.isAvailable() ? new Probe.Ready(DEVICES, "emulated GPUs")
                : new Probe.Missing("g++ is missing", "install it");
    }

    @Override
    public Backend open(Device device) {
        if (device.index() >= REORDERED) {
            return new CudaBackend(device, Emulation.gpu(device.index()), Libraries.NONE);
        }
        if (device.index() >= WITH_DRIVER) {
            return driven(device);
        }
        boolean libraries = device.index() == 1 || device.index() == 2;
        if (libraries) {
            FakeLibraries.load();
        }
        return new CudaBackend(device, Emulation.gpu(), libraries ? Libraries::nvidia : Libraries.NONE);
    }

    private static Backend driven(Device device) {
        FakeDriver.devices(2);
        try {
            Compiler compiler = Emulation.compiler();
            return new CudaBackend(device, new NvidiaGpu(device.index() == SECOND ? 1 : 0, compiler),
                    device.index() == WITH_DRIVER ? Libraries.NONE : Libraries::nvidia, CudaConfig.read(),
                    new KernelCompiler(compiler, Emulation.gpu().architecture()));
        } finally {
            FakeDriver.devices(0);
        }
    }
}
