package dev.starling.samples;

import dev.starling.samples.Finding.Verdict;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.WireProvider;
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.agrona.concurrent.UnsafeBuffer;

/** Checks of what training on several processes and hosts needs: ports, frames, buffers, memory, clocks, transports. */
final class Network {
    private static final int BEST_SOCKET_BUFFER = 4 << 20;
    private static final int ETHERNET_MTU = 1500;
    private static final long MEBIBYTE = 1 << 20;
    private static final long ENOUGH_SHARED_MEMORY_MIB = 1024;
    private static final long SLOW_CLOCK_NS = 1000;
    private static final int CLOCK_READINGS = 2000;
    private static final int ROUND_TRIPS = 200;
    private static final Duration ANSWER_TIMEOUT = Duration.ofMillis(800);

    private static final String BUSY = "run doctor again when the machine is less busy";
    private static final String PORTS = "allow processes of this user to listen on ports (firewall, container), "
            + "make the host name resolve to an address of this host (/etc/hosts), or set another host in "
            + "STARLING_HOST";

    private Network() {
    }

    /**
     * Starts all checks.
     *
     * @param timeout how long each check may take
     */
    static void inspect(Diagnosis diagnosis, Duration timeout) {
        diagnosis.start("Loopback ports", timeout, PORTS, () -> List.of(ports(true)));
        diagnosis.start("Host's ports", timeout, PORTS, () -> List.of(ports(false)));
        diagnosis.start("MTU", timeout, BUSY, () -> List.of(frames()));
        diagnosis.start("Socket buffers", timeout, BUSY, () -> List.of(socketBuffers()));
        diagnosis.start("TCP", timeout, BUSY, () -> List.of(congestionControl()));
        diagnosis.start("/dev/shm", timeout, BUSY, () -> List.of(sharedMemory()));
        diagnosis.start("Locked memory", timeout, BUSY, () -> List.of(lockedMemory()));
        diagnosis.start("Clock", timeout, BUSY, () -> List.of(clock()));
        diagnosis.start("Transport auto", timeout, BUSY, () -> List.of(choice()));
        Transport.providers().forEach((name, provider) -> {
            if (!name.equals("simulated")) {
                diagnosis.start("Transport " + name, timeout, BUSY, () -> List.of(transport(name, provider)));
            }
        });
    }

    private static Finding note(String subject, boolean fine, String state, String remedy) {
        return new Finding(subject, fine ? Verdict.OK : Verdict.NOTE, state, remedy);
    }

    /** Listens, connects and sends a datagram to this process, on loopback or at the host's own address. */
    private static Finding ports(boolean loopback) {
        String subject = loopback ? "Loopback ports" : "Host's ports";
        try {
            InetAddress address = loopback ? InetAddress.getLoopbackAddress() : InetAddress.getLocalHost();
            connectTo(address);
            sendTo(address);
            return new Finding(subject, Verdict.OK, "TCP and UDP at " + address, PORTS);
        } catch (IOException e) {
            return new Finding(subject, loopback ? Verdict.MISSING : Verdict.NOTE, "cannot be used: " + e, PORTS);
        }
    }

    private static void connectTo(InetAddress address) throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(address, 0));
                SocketChannel client = SocketChannel.open()) {
            client.socket().connect(server.getLocalAddress(), (int) ANSWER_TIMEOUT.toMillis());
        }
    }

    private static void sendTo(InetAddress address) throws IOException {
        try (DatagramChannel from = DatagramChannel.open();
                DatagramChannel to = DatagramChannel.open().bind(new InetSocketAddress(address, 0))) {
            SocketAddress target = to.getLocalAddress();
            from.send(ByteBuffer.wrap(new byte[] {42}), target);
            to.socket().setSoTimeout((int) ANSWER_TIMEOUT.toMillis());
            byte[] received = new byte[1];
            to.socket().receive(new DatagramPacket(received, 1));
        }
    }

    private static Finding frames() {
        try {
            List<String> each = new ArrayList<>();
            int smallest = Integer.MAX_VALUE;
            for (NetworkInterface network : NetworkInterface.networkInterfaces().toList()) {
                if (network.isUp()) {
                    each.add(network.getName() + " " + network.getMTU());
                    smallest = Math.min(smallest, network.getMTU());
                }
            }
            return note("MTU", smallest >= ETHERNET_MTU, String.join(", ", each), "MTUs below " + ETHERNET_MTU
                    + " bytes reduce throughput: ip link set dev NAME mtu 1500, or 9000 if the network supports it");
        } catch (IOException e) {
            return new Finding("MTU", Verdict.NOTE, "unknown: " + e, "allow processes to read the network interfaces");
        }
    }

    private static Finding socketBuffers() {
        try (DatagramChannel channel = DatagramChannel.open()) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, BEST_SOCKET_BUFFER);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, BEST_SOCKET_BUFFER);
            int receive = channel.getOption(StandardSocketOptions.SO_RCVBUF);
            int send = channel.getOption(StandardSocketOptions.SO_SNDBUF);
            return note("Socket buffers", Math.min(receive, send) >= BEST_SOCKET_BUFFER, (receive >> 10)
                    + " KiB for receiving, " + (send >> 10) + " KiB for sending",
                    "fast networks need larger ones: sysctl -w net.core.rmem_max=" + BEST_SOCKET_BUFFER
                    + " net.core.wmem_max=" + BEST_SOCKET_BUFFER);
        } catch (IOException e) {
            return new Finding("Socket buffers", Verdict.MISSING, "no datagram socket: " + e,
                    "allow this process to use the network");
        }
    }

    /** Congestion control that paces segments suits the internet. Within one network it only costs processor time. */
    private static Finding congestionControl() {
        String remedy = "within one network, TCP needs less processor time with another one, which tcp chooses by "
                + "itself and ucx between hosts does not: "
                + "sysctl -w net.ipv4.tcp_congestion_control=cubic";
        try {
            String name = Files.readString(Path.of("/proc/sys/net/ipv4/tcp_congestion_control")).strip();
            return note("TCP", !name.startsWith("bbr"), "congestion control " + name, remedy);
        } catch (IOException e) {
            return note("TCP", true, "congestion control unknown: " + e.getMessage(), remedy);
        }
    }

    private static Finding sharedMemory() {
        String remedy = "processes of one host exchange data through it: mount it with 1 GiB or more"
                + " (mount -o remount,size=1g /dev/shm; docker run --shm-size=1g)";
        Path memory = Path.of("/dev/shm");
        try {
            long free = Files.getFileStore(memory).getUsableSpace() / MEBIBYTE;
            return note("/dev/shm", free >= ENOUGH_SHARED_MEMORY_MIB && Files.isWritable(memory), free + " MiB free"
                    + (Files.isWritable(memory) ? "" : ", but not writable"), remedy);
        } catch (IOException e) {
            return new Finding("/dev/shm", Verdict.NOTE, "not available: " + e.getMessage(), remedy);
        }
    }

    /** RDMA adapters access memory directly and need it to be locked. */
    private static Finding lockedMemory() {
        boolean adapters = Files.isDirectory(Path.of("/sys/class/infiniband"));
        try (var lines = Files.lines(Path.of("/proc/self/limits"))) {
            String limit = lines.filter(l -> l.startsWith("Max locked memory")).map(l -> l.split("\\s+")[3]).findFirst()
                    .orElse("unknown");
            boolean unlimited = limit.equals("unlimited");
            String shown = unlimited ? limit : limit + " bytes";
            return note("Locked memory", unlimited || !adapters, shown + (adapters ? "" : "; there is no RDMA adapter"),
                    "RDMA needs registered memory: ulimit -l unlimited");
        } catch (IOException e) {
            return note("Locked memory", !adapters, "unknown: " + e.getMessage(),
                    "RDMA needs registered memory: ulimit -l unlimited");
        }
    }

    /** Measures the resolution of the clock, which limits that of deadlines and measurements. */
    private static Finding clock() {
        long[] stepsNs = new long[CLOCK_READINGS];
        for (int i = 0; i < CLOCK_READINGS; i++) {
            long before = System.nanoTime();
            do {
                stepsNs[i] = System.nanoTime() - before;
            } while (stepsNs[i] == 0);
        }
        Arrays.sort(stepsNs);
        long step = stepsNs[CLOCK_READINGS / 2];
        String source;
        try {
            source = Files.readString(Path.of("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
                    .strip();
        } catch (IOException e) {
            source = "unknown";
        }
        return note("Clock", step < SLOW_CLOCK_NS, "steps of " + step + " ns, source " + source,
                "a slow clock source makes waits imprecise: see "
                + "/sys/devices/system/clocksource/clocksource0/available_clocksource");
    }

    /** Says what the default transport is, within this host and to others. */
    private static Finding choice() {
        TransportConfig here = TransportConfig.of(TransportConfig.AUTOMATIC, Secret.random());
        try {
            String host = InetAddress.getLocalHost().getHostAddress();
            return new Finding("Transport auto", Verdict.OK, here.wireName() + " at " + here.host()
                    + ", within this host; tcp between hosts, " + here.at(host, 0).wireName() + " at " + host
                    + "; --transport names another", "");
        } catch (UnknownHostException e) {
            return new Finding("Transport auto", Verdict.OK, here.wireName() + " within this host, tcp between hosts; "
                    + "--transport names another", "");
        }
    }

    private static Finding transport(String name, WireProvider provider) {
        String subject = "Transport " + name;
        return switch (provider.availability()) {
            case WireProvider.Availability.Ready r when name.equals("aeron") || name.equals("tcp") -> roundTrips(name,
                    r.description());
            case WireProvider.Availability.Ready r -> new Finding(subject, Verdict.OK, r.description(), "");
            case WireProvider.Availability.Missing m -> new Finding(subject, Verdict.NOTE, m.reason(), m.remedy());
        };
    }

    /** Connects two transports on loopback and exchanges messages between them. */
    private static Finding roundTrips(String name, String description) {
        TransportConfig config = TransportConfig.of(name, Secret.random());
        try (Transport local = Transport.open(config); Transport remote = Transport.open(config)) {
            UnsafeBuffer message = new UnsafeBuffer(new byte[Integer.BYTES]);
            int[] answers = {0};
            remote.onMessage((from, buffer, offset, length) -> from.send(message, 0, length));
            local.onMessage((from, buffer, offset, length) -> answers[0]++);
            Endpoint peer = local.connect(remote.address(), new byte[0]);
            local.await(() -> remote.doWork() >= 0 && peer.isConnected(), ANSWER_TIMEOUT, "an answer");
            long[] durationsNs = new long[ROUND_TRIPS];
            for (int i = 0; i < ROUND_TRIPS; i++) {
                int before = answers[0];
                long start = System.nanoTime();
                peer.send(message, 0, Integer.BYTES);
                local.await(() -> remote.doWork() >= 0 && answers[0] > before, ANSWER_TIMEOUT, "an answer");
                durationsNs[i] = System.nanoTime() - start;
            }
            Arrays.sort(durationsNs);
            return new Finding("Transport " + name, Verdict.OK, description + String.format(Locale.ROOT,
                    "; %d round trips on loopback, median %.1f µs before warm-up", ROUND_TRIPS,
                    durationsNs[ROUND_TRIPS / 2] / 1e3), "");
        } catch (TransportException | IllegalStateException e) {
            return new Finding("Transport " + name, Verdict.MISSING, "no round trip on loopback: " + e.getMessage(),
                    "follow the message; ./starling train … --transport local needs no network");
        }
    }
}
