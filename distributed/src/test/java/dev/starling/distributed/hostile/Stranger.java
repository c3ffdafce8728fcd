package dev.starling.distributed.hostile;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.DatagramChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * A process without the secret that attacks ports of this host. Each line of its input is an attack, {@code KIND RATE
 * COUNT PORT …}, which replaces the one before; {@code REST} is none, {@code END} ends the process. The rate is that of
 * connections or datagrams in a second, to all ports together; 0 means as many as possible. After {@code COUNT} of them
 * the stranger prints {@code enough KIND}, and continues.
 */
final class Stranger {
    private static final long PAUSE_NS = 200_000;
    private static final long RECEIVE_NS = 1_000_000;
    private static final int BURST = 64;

    private final String provider;
    private final Forgery forgery;
    private final SplittableRandom random;
    private final AeronAttack datagrams;
    private final ServerSocketChannel listener;
    private volatile String order = "REST";

    private Stranger(String provider, long seed, Path recorded, int term) throws IOException {
        this.provider = provider;
        random = new SplittableRandom(seed);
        listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("127.0.0.1", 0));
        listener.configureBlocking(false);
        DatagramChannel socket = DatagramChannel.open();
        socket.bind(new InetSocketAddress("127.0.0.1", 0));
        socket.setOption(StandardSocketOptions.SO_RCVBUF, 1 << 20);
        socket.configureBlocking(false);
        InetSocketAddress own = (InetSocketAddress) (provider.equals("tcp") ? listener.getLocalAddress()
                : socket.getLocalAddress());
        forgery = new Forgery(Recording.read(recorded), "127.0.0.1:" + own.getPort());
        datagrams = new AeronAttack(forgery, socket, term, seed);
    }

    /** Arguments: the transport, the seed, the file of recorded frames, the length of Aeron's terms. */
    public static void main(String[] arguments) throws IOException {
        Stranger stranger = new Stranger(arguments[0], Long.parseLong(arguments[1]), Path.of(arguments[2]),
                Integer.parseInt(arguments[3]));
        Thread.ofPlatform().daemon().name("listener").start(stranger::listen);
        System.out.println("ready");
        int status = 1;
        try {
            stranger.run();
            status = 0;
        } catch (AssertionError | RuntimeException | IOException e) {
            System.out.println("leak " + e + Arrays.toString(e.getStackTrace()));
        }
        System.out.flush();
        System.exit(status);
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                order = line;
            }
            order = "END"; // The process that started this one has ended.
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the names of the attacks on a transport. */
    static List<String> kinds(String provider) {
        return Arrays.stream(provider.equals("tcp") ? TcpAttack.Kind.values() : AeronAttack.Kind.values())
                .map(Enum::name).toList();
    }

    private Attack attack(String kind) {
        return provider.equals("tcp") ? new TcpAttack(TcpAttack.Kind.valueOf(kind), forgery, listener)
                : datagrams.use(AeronAttack.Kind.valueOf(kind));
    }

    private void run() throws IOException {
        while (true) {
            String present = order;
            String[] words = present.split(" ");
            switch (words[0]) {
                case "END" -> {
                    return;
                }
                case "REST" -> {
                    while (order.equals(present)) {
                        LockSupport.parkNanos(PAUSE_NS);
                    }
                }
                default -> attack(present, words);
            }
        }
    }

    private void attack(String present, String[] words) throws IOException {
        long rate = Long.parseLong(words[1]);
        long count = Long.parseLong(words[2]);
        int[] ports = Arrays.stream(words).skip(3).mapToInt(Integer::parseInt).toArray();
        long begin = System.nanoTime();
        long strikes = 0;
        long nextNs = begin;
        try (Attack attack = attack(words[0])) {
            while (order.equals(present)) {
                double due = rate == 0 ? Double.MAX_VALUE : (System.nanoTime() - begin) * 1e-9 * rate;
                for (int i = 0; i < BURST && strikes < due; i++) {
                    attack.strike(ports[random.nextInt(ports.length)], random);
                    if (++strikes == count) {
                        System.out.println("enough " + words[0]);
                    }
                }
                if (System.nanoTime() > nextNs) {
                    nextNs = System.nanoTime() + RECEIVE_NS;
                    attack.receive();
                }
                if (strikes >= due) {
                    LockSupport.parkNanos(PAUSE_NS);
                }
            }
            System.out.println("struck " + words[0] + ' ' + strikes + ' ' + attack.received());
        }
    }
}
