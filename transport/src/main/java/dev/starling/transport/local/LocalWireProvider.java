package dev.starling.transport.local;

import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import dev.starling.transport.spi.WireProvider;

/** Wires between threads of one JVM. */
public final class LocalWireProvider implements WireProvider {
    @Override
    public String name() {
        return "local";
    }

    @Override
    public Availability availability() {
        return Availability.readyWithFlag("threads of one JVM");
    }

    @Override
    public Wire open(WireConfig config) {
        return LocalWire.open(config);
    }
}
