package dev.starling.transport.aeron;

import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Wires over Aeron: through memory that both map between processes of one host, over UDP between hosts. Options, sizes
 * such as {@code 64k} or {@code 4m}:
 *
 * <table>
 * <caption>Options</caption>
 * <tr><td>{@code driver}</td><td>directory of a media driver that runs elsewhere, such as {@link AeronDriver}; else
 * each wire has its own</td></tr>
 * <tr><td>{@code threads}</td><td>of the wire's own driver, 0 to 3; with 0, the default, polling drives it</td></tr>
 * <tr><td>{@code mtu}</td><td>longest datagram; 65504 on loopback, else what the interface carries</td></tr>
 * <tr><td>{@code term}</td><td>length of the buffers of a link over UDP; the longest message is an eighth</td></tr>
 * <tr><td>{@code ipcTerm}</td><td>the same for links within the host</td></tr>
 * <tr><td>{@code window}</td><td>bytes under way to a receiver over UDP</td></tr>
 * <tr><td>{@code socketBuffer}</td><td>of each socket; 4 MiB or what the system allows</td></tr>
 * <tr><td>{@code ipc}</td><td>whether links within the host leave the network aside; so if shared memory is
 * allowed</td></tr>
 * <tr><td>{@code linger}</td><td>milliseconds to wait at most for peers to get what was sent before closing</td></tr>
 * </table>
 *
 * <p>Files lie in the configuration's directory, which wires of one host must share to find each other; by default in
 * {@code /dev/shm}. One on a {@code tmpfs} that is mounted with {@code huge=always} makes UDP about a fifth faster.
 * What killed processes leave there the next wire deletes, or {@link AeronDriver#sweep}.
 */
public final class AeronWireProvider implements WireProvider {
    @Override
    public String name() {
        return "aeron";
    }

    @Override
    public Availability availability() {
        if (!Object.class.getModule().isExported("jdk.internal.misc", UnsafeBuffer.class.getModule())) {
            return new Availability.Missing("Agrona may not use jdk.internal.misc", "start java with --add-exports "
                    + "java.base/jdk.internal.misc=ALL-UNNAMED, or =org.agrona on the module path");
        }
        return new Availability.Ready("shared memory and UDP; files in " + WireDirectory.defaultBase());
    }

    @Override
    public Wire open(TransportConfig config) {
        return AeronWire.open(config);
    }
}
