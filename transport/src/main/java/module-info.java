/** Messages and one-sided writes between processes. */
module dev.starling.transport {
    requires transitive org.agrona;

    exports dev.starling.transport;
    exports dev.starling.transport.simulated;
    exports dev.starling.transport.spi;

    provides dev.starling.transport.spi.WireProvider with dev.starling.transport.local.LocalWireProvider,
            dev.starling.transport.simulated.SimulatedWireProvider;

    uses dev.starling.transport.spi.WireProvider;
}
