package dev.starling.cuda;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedDriver;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;
import java.util.EnumSet;

/**
 * Offers the backend over a GPU that the host plays: {@code Device.of("cuda-emulated", 0)} has our own kernels only,
 * those of index 1 and 2 have played libraries beside them. {@link #APART} is like the first, for who counts what is
 * compiled there; {@link #DRIVEN} is driven as NVIDIA's are, by a driver that is played, and so is {@link #EQUIPPED},
 * which has all played libraries, whose work its graphs take down, too; {@link #SECOND} is another such. Those from
 * {@link #REORDERED} on are like the first, with other orders of blocks and warps.
 */
public final class EmulatedProvider implements BackendProvider {
    static final int APART = 3;
    static final int DRIVEN = 4;
    static final int EQUIPPED = 5;
    static final int SECOND = 6;
    static final int REORDERED = 7;
    /** How many there are. */
    static final int DEVICES = 10;

    @Override
    public String type() {
        return "cuda-emulated";
    }

    @Override
    public Probe probe() {
        return Emulation.isPossible() ? new Probe.Ready(DEVICES, "emulated GPUs")
                : new Probe.Missing("g++ is missing", "install it");
    }

    @Override
    public Backend open(Device device) {
        if (device.index() >= REORDERED) {
            return new CudaBackend(device, Emulation.gpu(device.index()), Libraries.NONE);
        }
        if (device.index() >= DRIVEN) {
            return driven(device);
        }
        boolean played = device.index() == 1 || device.index() == 2;
        if (played) {
            PlayedLibraries.load();
        }
        return new CudaBackend(device, Emulation.gpu(), played ? Libraries.nvidia(EnumSet.allOf(CudnnFamily.class))
                : Libraries.NONE);
    }

    private static Backend driven(Device device) {
        PlayedDriver.devices(2);
        try {
            Compiler compiler = Emulation.compiler();
            return new CudaBackend(device, new NvidiaGpu(device.index() == SECOND ? 1 : 0, compiler),
                    device.index() == DRIVEN ? Libraries.NONE : Libraries.nvidia(EnumSet.allOf(CudnnFamily.class)),
                    new KernelCompiler(compiler, Emulation.gpu().architecture()));
        } finally {
            PlayedDriver.devices(0);
        }
    }
}
