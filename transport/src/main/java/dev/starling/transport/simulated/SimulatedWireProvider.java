package dev.starling.transport.simulated;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import dev.starling.transport.spi.WireProvider;

/** Explains how simulated wires are created: by a {@link Simulation}, which a configuration cannot name. */
public final class SimulatedWireProvider implements WireProvider {
    private static final String REMEDY = "use Transport.over(simulation.wire(name), config)";

    @Override
    public String name() {
        return "simulated";
    }

    @Override
    public Availability availability() {
        return new Availability.Missing("a simulated wire belongs to a Simulation", REMEDY);
    }

    @Override
    public Wire open(WireConfig config) {
        throw new TransportException(TransportException.Problem.ARGUMENT, "a simulated wire belongs to a Simulation",
                REMEDY);
    }
}
