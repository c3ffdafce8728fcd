package dev.starling.transport.tcp;

import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import dev.starling.transport.spi.WireProvider;

/**
 * Wires over TCP, in Java alone: for large data between hosts. Addresses have the form {@code host:port}, where the
 * host may be a name, an IPv4 address, or an IPv6 address in brackets. Options:
 *
 * <table>
 * <caption>Options</caption>
 * <tr><td>{@code bind}</td><td>address of this machine on which to listen, if it is not the one at which peers reach
 * this process; nothing listens on an address that was not named</td></tr>
 * <tr><td>{@code sendBuffer}, {@code receiveBuffer}</td><td>size of each socket's buffers, such as {@code 4m}; by
 * default the system chooses</td></tr>
 * <tr><td>{@code connections}</td><td>connections of each link, over which long messages are distributed; up to
 * {@value Lane#MAX_CONNECTIONS}, by default 1</td></tr>
 * <tr><td>{@code congestion}</td><td>the control of congestion, such as {@code cubic}, or {@code system} for the
 * system's; by default the system's, except that {@code reno} replaces {@code bbr} between hosts of one network, where
 * pacing costs as much processor time as the rest of TCP</td></tr>
 * <tr><td>{@code timeToProve}</td><td>milliseconds after which a connection is closed whose peer has not proven that it
 * has the secret; by default 10,000</td></tr>
 * </table>
 */
public final class TcpWireProvider implements WireProvider {
    @Override
    public String name() {
        return "tcp";
    }

    @Override
    public Availability availability() {
        return Availability.readyWithFlag("TCP by java.nio");
    }

    @Override
    public Wire open(WireConfig config) {
        return TcpWire.open(TcpSettings.of(config));
    }
}
