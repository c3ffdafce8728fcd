import org.jspecify.annotations.NullMarked;

/** Messages and one-sided writes between processes. */
@NullMarked
module dev.starling.transport {
    requires static transitive org.jspecify;
    requires io.aeron.client;
    requires io.aeron.driver;
    requires transitive dev.starling.errors;
    requires transitive org.agrona;
    requires jdk.management;
    requires jucx;

    exports dev.starling.transport;
    exports dev.starling.transport.aeron;
    exports dev.starling.transport.simulated;
    exports dev.starling.transport.spi;

    provides dev.starling.transport.spi.WireProvider with dev.starling.transport.aeron.AeronWireProvider,
            dev.starling.transport.local.LocalWireProvider,
            dev.starling.transport.simulated.SimulatedWireProvider,
            dev.starling.transport.tcp.TcpWireProvider,
            dev.starling.transport.ucx.UcxWireProvider;

    uses dev.starling.transport.spi.WireProvider;
}
