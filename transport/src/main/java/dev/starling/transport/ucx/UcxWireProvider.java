package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import dev.starling.transport.spi.WireProvider;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.openucx.jucx.ucp.UcpConstants;

/**
 * Wires over UCX: RDMA (InfiniBand, RoCE) where available, TCP, and shared memory within a host. Addresses have the
 * form {@code host:port}. Options:
 * <ul>
 * <li>{@code tls}: the transports that UCX may use, such as {@code tcp}, {@code sm,self} or {@code rc,tcp}. By default
 * all; those by shared memory only if the configuration allows it.
 * <li>{@code devices}: the network devices that UCX may use, such as {@code eth0} or {@code mlx5_0:1}; by default the
 * one with the host's address, or all where there is RDMA and that address is not a loopback address.
 * <li>{@code writes}: {@code network} lets UCX write into peers' memory, {@code messages} sends the data of puts in
 * messages. By default {@code network} where there is RDMA: elsewhere UCX would only emulate it, with more copies, and
 * the memory of each closed region would remain until its transport is closed. With {@code network}, UCX reads and
 * writes any memory of this process for every process that can connect to it.
 * <li>{@code log}: the level at which UCX prints to standard output, from {@code fatal}, the default, to {@code debug}.
 * One setting for all wires of a process.
 * <li>some of the variables that UCX documents, such as {@code UCX_TCP_RX_SEG_SIZE}; an unknown one is refused with the
 * list of all.
 * </ul>
 * UCX 1.13 or newer must be installed. The JVM needs {@code --enable-native-access} for {@code jucx}.
 */
public final class UcxWireProvider implements WireProvider {
    private static final String REMEDY = "install UCX 1.13 or newer, for example with: apt-get install libucx0";
    private static final String NOEXEC = "name a directory whose file system is not mounted with noexec, for example: "
            + "-Djava.io.tmpdir=/var/tmp";

    /** Creates the provider; the service loader calls this. */
    public UcxWireProvider() { }

    @Override
    public String name() {
        return "ucx";
    }

    @Override
    public Availability availability() {
        Availability flag = Availability.readyWithFlag("UCX through jucx");
        if (flag instanceof Availability.Missing) {
            return flag;
        }
        try {
            // This loads the native library, which extracts itself into a directory; afterwards the directory is not
            // needed any more.
            if (UcpConstants.UCP_AM_SEND_FLAG_EAGER == 0) {
                return new Availability.Missing("the installed version of UCX does not match its Java binding",
                        REMEDY);
            }
            deleteExtracted();
            return flag;
        } catch (LinkageError e) {
            String message = e.getMessage();
            String reason = message == null ? e.getClass().getSimpleName() : message.lines().findFirst().orElse("");
            return new Availability.Missing("UCX's native library cannot be loaded: " + reason,
                    reason.contains("failed to map segment") ? NOEXEC : REMEDY);
        }
    }

    // A killed process would leave the files behind.
    private static void deleteExtracted() {
        try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
            List<Path> files = lines.filter(line -> line.endsWith(".so") && line.contains("/libjucx_"))
                    .map(line -> Path.of(line.substring(line.indexOf('/')))).distinct().toList();
            for (Path file : files) {
                Files.deleteIfExists(file);
                Files.deleteIfExists(file.getParent());
            }
        } catch (IOException e) {
            System.getLogger(UcxWireProvider.class.getName()).log(System.Logger.Level.DEBUG,
                    "cannot delete the extracted library", e);
        }
    }

    @Override
    public Wire open(WireConfig config) {
        if (availability() instanceof Availability.Missing(String reason, String remedy)) {
            throw new TransportException(TransportException.Problem.UNAVAILABLE, reason, remedy);
        }
        return new UcxWire(config);
    }
}
