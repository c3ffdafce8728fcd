package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;

/**
 * Offers the backend over a GPU that the host plays: {@code Device.of("cuda-emulated", 0)} has our own kernels only,
 * those of index 1 and 2 have played libraries beside them.
 */
public final class EmulatedProvider implements BackendProvider {
    @Override
    public String type() {
        return "cuda-emulated";
    }

    @Override
    public Probe probe() {
        return Emulation.isPossible() ? new Probe.Ready(PlayedLibraries.arePossible() ? 3 : 1, "emulated GPUs")
                : new Probe.Missing("g++ is missing", "install it");
    }

    @Override
    public Backend open(Device device) {
        if (device.index() > 0) {
            PlayedLibraries.load();
        }
        return new CudaBackend(device, Emulation.gpu(),
                device.index() == 0 ? Libraries.NONE : Libraries.NVIDIA);
    }
}
