package dev.starling.cuda;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;

/** Offers the backend over a GPU that the host plays, as {@code Device.of("cuda-emulated", 0)}. */
public final class EmulatedProvider implements BackendProvider {
    @Override
    public String type() {
        return "cuda-emulated";
    }

    @Override
    public Probe probe() {
        return Emulation.isPossible() ? new Probe.Ready(1, "an emulated GPU")
                : new Probe.Missing("g++ is missing", "install it");
    }

    @Override
    public Backend open(Device device) {
        return new CudaBackend(device, Emulation.gpu(), Libraries.NONE);
    }
}
