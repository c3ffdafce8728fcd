package dev.starling.distributed.network;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * Forwards datagrams after random delays, so that many overtake each other. Arguments {@code port=host:port}: where to
 * forward datagrams that arrive at a port; replies take the same path back. Prints the numbers of overtaken and of all
 * datagrams after every {@value #REPORT_INTERVAL} overtaken ones.
 */
final class DelayingRelay {
    private static final long MIN_NS = TimeUnit.MICROSECONDS.toNanos(200);
    private static final int JITTER_NS = (int) TimeUnit.MILLISECONDS.toNanos(3);
    private static final int REPORT_INTERVAL = 100;
    private static final int MAX_BYTES = 65_536;

    private final Random random = new Random(4);
    private final Selector selector = Selector.open();
    private final ByteBuffer buffer = ByteBuffer.allocate(MAX_BYTES);
    private final PriorityQueue<Delayed> delayed = new PriorityQueue<>((a, b) -> Long.compare(a.dueNs, b.dueNs));
    private long count;
    private long overtaken;

    private DelayingRelay() throws IOException { }

    /** A delayed datagram. */
    private record Delayed(long dueNs, long number, byte[] bytes, Way way) { }

    /** A destination of datagrams, with the number of the last one sent. */
    private static final class Way {
        private final DatagramChannel channel;
        private final SocketAddress target;
        private long last = -1;

        Way(DatagramChannel channel, SocketAddress target) {
            this.channel = channel;
            this.target = target;
        }
    }

    /** A listening socket. Each sender gets a socket of its own, through which replies return. */
    private record Entry(DatagramChannel channel, InetSocketAddress target, Map<SocketAddress, Way> onward) { }

    public static void main(String[] arguments) throws IOException {
        DelayingRelay relay = new DelayingRelay();
        for (String argument : arguments) {
            String[] parts = argument.split("[=:]");
            DatagramChannel channel = DatagramChannel.open();
            channel.bind(new InetSocketAddress(Integer.parseInt(parts[0]))).configureBlocking(false);
            channel.register(relay.selector, SelectionKey.OP_READ, new Entry(channel,
                    new InetSocketAddress(parts[1], Integer.parseInt(parts[2])), new HashMap<>()));
        }
        System.out.println("ready");
        while (true) {
            relay.doWork();
        }
    }

    private void doWork() throws IOException {
        long waitNs = delayed.isEmpty() ? TimeUnit.SECONDS.toNanos(1) : delayed.peek().dueNs - System.nanoTime();
        if (waitNs < TimeUnit.MILLISECONDS.toNanos(1)) {
            selector.selectNow();
        } else {
            selector.select(TimeUnit.NANOSECONDS.toMillis(waitNs));
        }
        for (SelectionKey key : selector.selectedKeys()) {
            receive(key);
        }
        selector.selectedKeys().clear();
        while (!delayed.isEmpty() && delayed.peek().dueNs <= System.nanoTime()) {
            send(delayed.poll());
        }
    }

    private void receive(SelectionKey key) throws IOException {
        DatagramChannel channel = (DatagramChannel) key.channel();
        SocketAddress from;
        while ((from = channel.receive(buffer.clear())) != null) {
            byte[] bytes = new byte[buffer.flip().remaining()];
            buffer.get(bytes);
            Way way;
            if (key.attachment() instanceof Entry entry) {
                way = entry.onward.get(from);
                if (way == null) {
                    DatagramChannel onward = DatagramChannel.open();
                    onward.bind(new InetSocketAddress(0)).configureBlocking(false);
                    onward.register(selector, SelectionKey.OP_READ, new Way(entry.channel, from));
                    way = new Way(onward, entry.target);
                    entry.onward.put(from, way);
                }
            } else {
                way = (Way) key.attachment();
            }
            delayed.add(new Delayed(System.nanoTime() + MIN_NS + random.nextInt(JITTER_NS), count++, bytes, way));
        }
    }

    private void send(Delayed each) throws IOException {
        if (each.number < each.way.last) {
            overtaken++;
            if (overtaken % REPORT_INTERVAL == 0) {
                System.out.println("overtaken " + overtaken + " of " + count);
            }
        }
        each.way.last = Math.max(each.way.last, each.number);
        each.way.channel.send(ByteBuffer.wrap(each.bytes), each.way.target);
    }
}
