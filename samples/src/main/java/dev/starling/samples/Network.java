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

/** What training on several processes and hosts will find here: ports, frames, buffers, memory, clocks, transports. */
final class Network {
    private static final int BEST_SOCKET_BUFFER = 4 << 20;
    private static final int ETHERNET_MTU = 1500;
    private static final long MEBIBYTE = 1 << 20;
    private static final long ENOUGH_SHARED_MEMORY_MIB = 1024;
    private static final long SLOW_CLOCK_NS = 1000;
    private static final int CLOCK_READINGS = 2000;
    private static final int ROUND_TRIPS = 200;
    private static final Duration ANSWER = Duration.ofMillis(800);

    private static final String BUSY = "look again when the machine is less busy";
    private static final String PORTS = "let processes of this user listen on ports (firewall, container's network), "
            + "see that the host's name leads to an address of this host (/etc/hosts), or name a host with "
            + "STARLING_HOST";

    private Network() {
    }

    /**
     * Begins to look at everything.
     *
     * @param atMost how long each thing may take
     */
    static void inspect(Examination examination, Duration atMost) {
        examination.begin("Loopback ports", atMost, PORTS, () -> List.of(ports(true)));
        examination.begin("Host's ports", atMost, PORTS, () -> List.of(ports(false)));
        examination.begin("MTU", atMost, BUSY, () -> List.of(frames()));
        examination.begin("Socket buffers", atMost, BUSY, () -> List.of(socketBuffers()));
        examination.begin("TCP", atMost, BUSY, () -> List.of(congestionControl()));
        examination.begin("/dev/shm", atMost, BUSY, () -> List.of(sharedMemory()));
        examination.begin("Locked memory", atMost, BUSY, () -> List.of(lockedMemory()));
        examination.begin("Clock", atMost, BUSY, () -> List.of(clock()));
        Transport.providers().forEach((name, provider) -> {
            if (!name.equals("simulated")) {
                examination.begin("Transport " + name, atMost, BUSY, () -> List.of(transport(name, provider)));
            }
        });
    }

    private static Finding note(String subject, boolean fine, String state, String remedy) {
        return new Finding(subject, fine ? Verdict.OK : Verdict.NOTE, state, remedy);
    }

    /** Listens, connects and sends a datagram to itself, on loopback or under the host's own name. */
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
            client.socket().connect(server.getLocalAddress(), (int) ANSWER.toMillis());
        }
    }

    private static void sendTo(InetAddress address) throws IOException {
        try (DatagramChannel from = DatagramChannel.open();
                DatagramChannel to = DatagramChannel.open().bind(new InetSocketAddress(address, 0))) {
            SocketAddress target = to.getLocalAddress();
            from.send(ByteBuffer.wrap(new byte[] {42}), target);
            to.socket().setSoTimeout((int) ANSWER.toMillis());
            byte[] received = new byte[1];
            to.socket().receive(new DatagramPacket(received, 1));
        }
    }

    private static Finding frames() {
        try {
            List<String> each = new ArrayList<>();
            int shortest = Integer.MAX_VALUE;
            for (NetworkInterface network : NetworkInterface.networkInterfaces().toList()) {
                if (network.isUp()) {
                    each.add(network.getName() + " " + network.getMTU());
                    shortest = Math.min(shortest, network.getMTU());
                }
            }
            return note("MTU", shortest >= ETHERNET_MTU, String.join(", ", each), "frames below " + ETHERNET_MTU
                    + " bytes cost throughput: ip link set dev NAME mtu 1500, or 9000 if the network carries it");
        } catch (IOException e) {
            return new Finding("MTU", Verdict.NOTE, "unknown: " + e, "let processes read the network's interfaces");
        }
    }

    private static Finding socketBuffers() {
        try (DatagramChannel channel = DatagramChannel.open()) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, BEST_SOCKET_BUFFER);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, BEST_SOCKET_BUFFER);
            int receive = channel.getOption(StandardSocketOptions.SO_RCVBUF);
            int send = channel.getOption(StandardSocketOptions.SO_SNDBUF);
            return note("Socket buffers", Math.min(receive, send) >= BEST_SOCKET_BUFFER, (receive >> 10)
                    + " KiB to receive, " + (send >> 10) + " KiB to send",
                    "fast networks fill more: sysctl -w net.core.rmem_max=" + BEST_SOCKET_BUFFER
                    + " net.core.wmem_max=" + BEST_SOCKET_BUFFER);
        } catch (IOException e) {
            return new Finding("Socket buffers", Verdict.MISSING, "no datagram socket: " + e,
                    "let this process use the network");
        }
    }

    /** What spaces segments out in time suits the internet; between neighbours it takes processor time only. */
    private static Finding congestionControl() {
        String remedy = "between machines of one network, ucx over TCP needs less processor time with another: "
                + "sysctl -w net.ipv4.tcp_congestion_control=cubic";
        try {
            String name = Files.readString(Path.of("/proc/sys/net/ipv4/tcp_congestion_control")).strip();
            return note("TCP", !name.startsWith("bbr"), "congestion control " + name, remedy);
        } catch (IOException e) {
            return note("TCP", true, "congestion control unknown: " + e.getMessage(), remedy);
        }
    }

    private static Finding sharedMemory() {
        String remedy = "processes of one host exchange data there: mount it with 1 GiB or more"
                + " (mount -o remount,size=1g /dev/shm; docker run --shm-size=1g)";
        Path memory = Path.of("/dev/shm");
        try {
            long free = Files.getFileStore(memory).getUsableSpace() / MEBIBYTE;
            return note("/dev/shm", free >= ENOUGH_SHARED_MEMORY_MIB && Files.isWritable(memory), free + " MiB free"
                    + (Files.isWritable(memory) ? "" : ", but not to be written to"), remedy);
        } catch (IOException e) {
            return new Finding("/dev/shm", Verdict.NOTE, "not there: " + e.getMessage(), remedy);
        }
    }

    /** Adapters that write memory themselves need it to stay where it is. */
    private static Finding lockedMemory() {
        boolean adapters = Files.isDirectory(Path.of("/sys/class/infiniband"));
        try (var lines = Files.lines(Path.of("/proc/self/limits"))) {
            String limit = lines.filter(l -> l.startsWith("Max locked memory")).map(l -> l.split("\\s+")[3]).findFirst()
                    .orElse("unknown");
            boolean unlimited = limit.equals("unlimited");
            String shown = unlimited ? limit : limit + " bytes";
            return note("Locked memory", unlimited || !adapters, shown + (adapters ? "" : "; there is no RDMA adapter"),
                    "RDMA registers memory: ulimit -l unlimited");
        } catch (IOException e) {
            return note("Locked memory", !adapters, "unknown: " + e.getMessage(),
                    "RDMA registers memory: ulimit -l unlimited");
        }
    }

    /** Deadlines and measurements are no finer than this. */
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
                "a slow source makes waiting coarse: see "
                + "/sys/devices/system/clocksource/clocksource0/available_clocksource");
    }

    private static Finding transport(String name, WireProvider provider) {
        String subject = "Transport " + name;
        return switch (provider.availability()) {
            case WireProvider.Availability.Ready r when name.equals("aeron") -> roundTrips(name, r.description());
            case WireProvider.Availability.Ready r -> new Finding(subject, Verdict.OK, r.description(), "");
            case WireProvider.Availability.Missing m -> new Finding(subject, Verdict.NOTE, m.reason(), m.remedy());
        };
    }

    /** Two members of a cluster of two greet each other on loopback and exchange messages. */
    private static Finding roundTrips(String name, String description) {
        TransportConfig config = TransportConfig.of(name, Secret.random());
        try (Transport here = Transport.open(config); Transport there = Transport.open(config)) {
            UnsafeBuffer message = new UnsafeBuffer(new byte[Integer.BYTES]);
            int[] answers = {0};
            there.onMessage((from, buffer, offset, length) -> from.send(message, 0, length));
            here.onMessage((from, buffer, offset, length) -> answers[0]++);
            Endpoint peer = here.connect(there.address(), new byte[0]);
            here.await(() -> there.doWork() >= 0 && peer.isConnected(), ANSWER, "an answer");
            long[] tookNs = new long[ROUND_TRIPS];
            for (int i = 0; i < ROUND_TRIPS; i++) {
                int before = answers[0];
                long begin = System.nanoTime();
                peer.send(message, 0, Integer.BYTES);
                here.await(() -> there.doWork() >= 0 && answers[0] > before, ANSWER, "an answer");
                tookNs[i] = System.nanoTime() - begin;
            }
            Arrays.sort(tookNs);
            return new Finding("Transport " + name, Verdict.OK, description + String.format(Locale.ROOT,
                    "; %d round trips on loopback, median %.1f µs before warming up", ROUND_TRIPS,
                    tookNs[ROUND_TRIPS / 2] / 1e3), "");
        } catch (TransportException | IllegalStateException e) {
            return new Finding("Transport " + name, Verdict.MISSING, "no round trip on loopback: " + e.getMessage(),
                    "see what the message says; ./starling train … --transport local needs no network");
        }
    }
}
