package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Notifies any coordinator that is started again at a former address where the present one is, so that it sends
 * processes there instead of waiting for members of its own. Used under the group's lock.
 */
final class Herald implements AutoCloseable {
    private final Transport transport;
    private final long intervalNs;
    private final Set<String> formers = new LinkedHashSet<>();
    private final Map<String, Outbox> links = new TreeMap<>();
    private long triedNs;
    private String announced = "";

    Herald(Transport transport) {
        this.transport = transport;
        intervalNs = transport.config().livenessTimeout().toNanos() / 4;
    }

    /** Adds an address at which the group had its coordinator. */
    void add(String address) {
        formers.add(address);
    }

    /** Continues to notify; {@code present} is the address of the present coordinator. */
    int doWork(String present) {
        if (!announced.equals(present)) {
            close();
            announced = present;
        }
        int work = 0;
        long now = transport.nanoTime();
        boolean due = links.isEmpty() || now - triedNs > intervalNs;
        triedNs = due ? now : triedNs;
        for (String former : formers) {
            Outbox known = links.get(former);
            if (known != null) {
                work += known.doWork();
            }
            if (due && !former.equals(present) && (known == null || isOver(known.endpoint()))) {
                connect(former, known);
            }
        }
        return work;
    }

    private static boolean isOver(Endpoint endpoint) {
        return !endpoint.isConnected() && endpoint.state() != Endpoint.State.CONNECTING;
    }

    private void connect(String former, @Nullable Outbox known) {
        if (known != null) {
            close(known.endpoint());
        }
        Outbox outbox = new Outbox(transport.connect(former, new byte[0]));
        links.put(former, outbox);
        outbox.send(new Control.Moved(announced));
    }

    @Override
    public void close() {
        links.values().forEach(each -> close(each.endpoint()));
        links.clear();
    }

    private static void close(Endpoint endpoint) {
        if (endpoint.state() != Endpoint.State.CLOSED) {
            endpoint.close();
        }
    }
}
