package dev.starling.transport.aeron;

import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import dev.starling.transport.spi.WireProvider;

/**
 * Wires over Aeron: through shared memory between processes of one host, over UDP between hosts. Options, with sizes
 * such as {@code 64k} or {@code 4m}:
 *
 * <table>
 * <caption>Options</caption>
 * <tr><td>{@code driver}</td><td>directory of a media driver that runs elsewhere, such as {@link AeronDriver}; by
 * default each wire has its own</td></tr>
 * <tr><td>{@code threads}</td><td>number of threads of the wire's own driver, 0 to 3; with 0, the default, polling
 * drives it</td></tr>
 * <tr><td>{@code mtu}</td><td>maximum length of a datagram; by default 65504 on loopback, otherwise that of the
 * interface</td></tr>
 * <tr><td>{@code term}</td><td>length of the buffers of a link over UDP; a message is at most an eighth of it</td></tr>
 * <tr><td>{@code ipcTerm}</td><td>the same for links within the host</td></tr>
 * <tr><td>{@code window}</td><td>maximum number of bytes in flight to a receiver over UDP</td></tr>
 * <tr><td>{@code socketBuffer}</td><td>size of each socket's buffers; by default 4 MiB or the system's limit</td></tr>
 * <tr><td>{@code ipc}</td><td>whether links within the host bypass the network; by default if shared memory is
 * allowed</td></tr>
 * <tr><td>{@code linger}</td><td>maximum time in milliseconds to wait on closing until peers have received what was
 * sent</td></tr>
 * </table>
 *
 * <p>Files lie in the configuration's directory, by default in {@code /dev/shm}; the wires of one host must share it to
 * find each other. A directory on a {@code tmpfs} that is mounted with {@code huge=always} makes UDP about a fifth
 * faster. Files that killed processes leave behind are deleted by the next wire, or by {@link AeronDriver#sweep}.
 */
public final class AeronWireProvider implements WireProvider {
    @Override
    public String name() {
        return "aeron";
    }

    @Override
    public Availability availability() {
        return Availability.readyWithFlag("shared memory and UDP; files in " + WireDirectory.defaultBase());
    }

    @Override
    public Wire open(WireConfig config) {
        return AeronWire.open(config);
    }
}
