package dev.starling.tensor.reference;

import dev.starling.tensor.Device;
import dev.starling.tensor.host.HostBackend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;

/** Provides the {@code reference} device, which every machine has. */
public final class ReferenceProvider implements BackendProvider {
    @Override
    public String type() {
        return "reference";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(1, "definition of every operation in double precision, slow");
    }

    @Override
    public HostBackend open(Device device) {
        return ReferenceKernels::run;
    }
}
