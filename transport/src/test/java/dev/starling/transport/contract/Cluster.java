package dev.starling.transport.contract;

import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;

/** Transports that know one secret, all driven by the test's thread. */
final class Cluster implements AutoCloseable {
    private static final Duration LONG = Duration.ofSeconds(20);

    final Setting.Site site;
    final Secret secret;
    private final boolean ownsSite;
    private final List<Member> members = new ArrayList<>();

    Cluster(Setting setting) {
        this(setting.site(), true);
    }

    private Cluster(Setting.Site site, boolean ownsSite) {
        this.site = site;
        this.ownsSite = ownsSite;
        secret = Secret.random();
    }

    /** Returns another cluster, with another secret, in the same place. */
    Cluster beside() {
        return new Cluster(site, false);
    }

    /** A transport and what came to it. */
    static final class Member implements AutoCloseable {
        final Transport transport;
        final List<Endpoint> accepted = new ArrayList<>();
        final List<Endpoint> lost = new ArrayList<>();
        final List<String> messages = new ArrayList<>();
        final List<Long> told = new ArrayList<>();
        boolean driven = true;

        Member(Transport transport) {
            this.transport = transport;
            transport.onConnection(new ConnectionHandler() {
                @Override
                public void accepted(Endpoint endpoint) {
                    accepted.add(endpoint);
                }

                @Override
                public void lost(Endpoint endpoint) {
                    lost.add(endpoint);
                }
            });
            transport.onMessage((from, buffer, offset, length) -> messages.add(buffer.getStringWithoutLengthAscii(
                    offset, length)));
            transport.onPut((from, immediate) -> told.add(immediate));
        }

        @Override
        public void close() {
            driven = false;
            transport.close();
        }
    }

    /** Two ends of a connection. */
    record Connection(Member a, Member b, Endpoint toB, Endpoint toA) {
        /** Returns b's region as a sees it. */
        RemoteRegion open(MemoryRegion ofB) {
            return toB.open(RegionKey.decode(ofB.key().encode()));
        }
    }

    TransportConfig config() {
        return site.config(secret);
    }

    Member member() {
        return member(c -> c);
    }

    Member member(UnaryOperator<TransportConfig> change) {
        Member member = new Member(site.open(change.apply(config())));
        members.add(member);
        return member;
    }

    /** A member with somebody on its wire. */
    Member member(Tap tap) {
        Member member = new Member(Transport.over(tap, config()));
        members.add(member);
        return member;
    }

    Connection connect() {
        return connect(member(), member());
    }

    Connection connect(Member a, Member b) {
        int before = b.accepted.size();
        Endpoint toB = a.transport.connect(b.transport.address(), "a greeting".getBytes(StandardCharsets.US_ASCII));
        await(() -> toB.isConnected() && b.accepted.size() > before, "a connection");
        return new Connection(a, b, toB, b.accepted.getLast());
    }

    /** Lets all do their work until something holds. */
    void await(BooleanSupplier condition, String what) {
        Transport first = members.stream().filter(m -> m.driven).findFirst().orElseThrow().transport;
        long begin = first.nanoTime();
        long idle = begin;
        while (!condition.getAsBoolean()) {
            long now = first.nanoTime();
            if (work() > 0) {
                idle = now;
            } else if (now - begin > LONG.toNanos()) {
                throw new AssertionError("waited " + LONG + " for " + what);
            } else {
                first.idle(now - idle);
            }
        }
    }

    /** Lets all do their work for a while. */
    void work(Duration time) {
        Transport first = members.stream().filter(m -> m.driven).findFirst().orElseThrow().transport;
        long end = first.nanoTime() + time.toNanos();
        await(() -> first.nanoTime() > end, "the time to pass");
    }

    int work() {
        int work = 0;
        for (int i = 0; i < members.size(); i++) {
            if (members.get(i).driven) {
                work += members.get(i).transport.doWork();
            }
        }
        return work;
    }

    @Override
    public void close() {
        members.forEach(Member::close);
        if (ownsSite) {
            site.close();
        }
    }
}
