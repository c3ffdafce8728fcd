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

    private final List<Finding> findings = new ArrayList<>();

    private Network() {
    }

    static List<Finding> inspect() {
        Network network = new Network();
        network.ports();
        network.frames();
        network.socketBuffers();
        network.sharedMemory();
        network.lockedMemory();
        network.clock();
        network.transports();
        return network.findings;
    }

    private void add(String subject, Verdict verdict, String state, String remedy) {
        findings.add(new Finding(subject, verdict, state, remedy));
    }

    private void note(String subject, boolean fine, String state, String remedy) {
        add(subject, fine ? Verdict.OK : Verdict.NOTE, state, remedy);
    }

    /** Listens, connects and sends a datagram to itself, on loopback and under the host's own name. */
    private void ports() {
        String remedy = "let processes of this user listen on ports (firewall, container's network), see that the "
                + "host's name leads to an address of this host (/etc/hosts), or name a host with STARLING_HOST";
        for (boolean loopback : new boolean[] {true, false}) {
            String subject = loopback ? "Loopback ports" : "Host's ports";
            try {
                InetAddress address = loopback ? InetAddress.getLoopbackAddress() : InetAddress.getLocalHost();
                connectTo(address);
                sendTo(address);
                add(subject, Verdict.OK, "TCP and UDP at " + address, remedy);
            } catch (IOException e) {
                add(subject, loopback ? Verdict.MISSING : Verdict.NOTE, "cannot be used: " + e, remedy);
            }
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

    private void frames() {
        try {
            List<String> each = new ArrayList<>();
            int shortest = Integer.MAX_VALUE;
            for (NetworkInterface network : NetworkInterface.networkInterfaces().toList()) {
                if (network.isUp()) {
                    each.add(network.getName() + " " + network.getMTU());
                    shortest = Math.min(shortest, network.getMTU());
                }
            }
            note("MTU", shortest >= ETHERNET_MTU, String.join(", ", each), "frames below " + ETHERNET_MTU
                    + " bytes cost throughput: ip link set dev NAME mtu 1500, or 9000 if the network carries it");
        } catch (IOException e) {
            add("MTU", Verdict.NOTE, "unknown: " + e, "let processes read the network's interfaces");
        }
    }

    private void socketBuffers() {
        try (DatagramChannel channel = DatagramChannel.open()) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, BEST_SOCKET_BUFFER);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, BEST_SOCKET_BUFFER);
            int receive = channel.getOption(StandardSocketOptions.SO_RCVBUF);
            int send = channel.getOption(StandardSocketOptions.SO_SNDBUF);
            note("Socket buffers", Math.min(receive, send) >= BEST_SOCKET_BUFFER, (receive >> 10) + " KiB to receive, "
                    + (send >> 10) + " KiB to send", "fast networks fill more: sysctl -w net.core.rmem_max="
                    + BEST_SOCKET_BUFFER + " net.core.wmem_max=" + BEST_SOCKET_BUFFER);
        } catch (IOException e) {
            add("Socket buffers", Verdict.MISSING, "no datagram socket: " + e, "let this process use the network");
        }
    }

    private void sharedMemory() {
        String remedy = "processes of one host exchange data there: mount it with 1 GiB or more"
                + " (mount -o remount,size=1g /dev/shm; docker run --shm-size=1g)";
        Path memory = Path.of("/dev/shm");
        try {
            long free = Files.getFileStore(memory).getUsableSpace() / MEBIBYTE;
            note("/dev/shm", free >= ENOUGH_SHARED_MEMORY_MIB && Files.isWritable(memory), free + " MiB free"
                    + (Files.isWritable(memory) ? "" : ", but not to be written to"), remedy);
        } catch (IOException e) {
            add("/dev/shm", Verdict.NOTE, "not there: " + e.getMessage(), remedy);
        }
    }

    /** Adapters that write memory themselves need it to stay where it is. */
    private void lockedMemory() {
        boolean adapters = Files.isDirectory(Path.of("/sys/class/infiniband"));
        try (var lines = Files.lines(Path.of("/proc/self/limits"))) {
            String limit = lines.filter(l -> l.startsWith("Max locked memory")).map(l -> l.split("\\s+")[3]).findFirst()
                    .orElse("unknown");
            boolean unlimited = limit.equals("unlimited");
            String shown = unlimited ? limit : limit + " bytes";
            note("Locked memory", unlimited || !adapters, shown + (adapters ? "" : "; there is no RDMA adapter"),
                    "RDMA registers memory: ulimit -l unlimited");
        } catch (IOException e) {
            note("Locked memory", !adapters, "unknown: " + e.getMessage(),
                    "RDMA registers memory: ulimit -l unlimited");
        }
    }

    /** Deadlines and measurements are no finer than this. */
    private void clock() {
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
        note("Clock", step < SLOW_CLOCK_NS, "steps of " + step + " ns, source " + source, "a slow source makes waiting "
                + "coarse: see /sys/devices/system/clocksource/clocksource0/available_clocksource");
    }

    private void transports() {
        Transport.providers().forEach((name, provider) -> {
            switch (provider.availability()) {
                case WireProvider.Availability a when name.equals("simulated") -> { }
                case WireProvider.Availability.Ready r when name.equals("aeron") -> roundTrips(name, r.description());
                case WireProvider.Availability.Ready r -> add("Transport " + name, Verdict.OK, r.description(), "");
                case WireProvider.Availability.Missing m -> add("Transport " + name, Verdict.NOTE, m.reason(),
                        m.remedy());
            }
        });
    }

    /** Two members of a cluster of two greet each other on loopback and exchange messages. */
    private void roundTrips(String name, String description) {
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
            add("Transport " + name, Verdict.OK, description + String.format(Locale.ROOT, "; %d round trips on "
                    + "loopback, median %.1f µs before warming up", ROUND_TRIPS, tookNs[ROUND_TRIPS / 2] / 1e3), "");
        } catch (TransportException | IllegalStateException e) {
            add("Transport " + name, Verdict.MISSING, "no round trip on loopback: " + e.getMessage(),
                    "see what the message says; ./starling train … --transport local needs no network");
        }
    }
}
