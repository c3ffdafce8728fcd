/** Messages and one-sided writes between processes. */
module dev.starling.transport {
    requires transitive org.agrona;

    exports dev.starling.transport;
    exports dev.starling.transport.spi;

    uses dev.starling.transport.spi.WireProvider;
}
