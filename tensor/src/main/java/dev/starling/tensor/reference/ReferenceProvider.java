package dev.starling.tensor.reference;

import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Backend;
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
    public Backend open(Device device) {
        return new ReferenceBackend();
    }
}
