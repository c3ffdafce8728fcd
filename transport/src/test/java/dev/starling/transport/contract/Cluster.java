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
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;

/** Transports that know one secret, all driven by the test's thread. */
final class Cluster implements AutoCloseable {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    final Setting.Environment environment;
    final Secret secret;
    private final boolean ownsSite;
    private final List<Member> members = new ArrayList<>();

    Cluster(Setting setting) {
        this(setting.environment(), true);
    }

    private Cluster(Setting.Environment environment, boolean ownsSite) {
        this.environment = environment;
        this.ownsSite = ownsSite;
        secret = Secret.random();
    }

    /** Returns another cluster, with another secret, in the same environment. */
    Cluster beside() {
        return new Cluster(environment, false);
    }

    /** A transport and a record of its events. */
    static final class Member implements AutoCloseable {
        final Transport transport;
        final List<Endpoint> accepted = new ArrayList<>();
        final List<Endpoint> lost = new ArrayList<>();
        final List<String> messages = new ArrayList<>();
        final List<Long> notified = new ArrayList<>();
        boolean driven = true;

        Member(Transport transport) {
            this.transport = transport;
            transport.onConnection(new ConnectionHandler() {
                @Override
                public void onAccepted(Endpoint endpoint) {
                    accepted.add(endpoint);
                }

                @Override
                public void onLost(Endpoint endpoint) {
                    lost.add(endpoint);
                }
            });
            transport.onMessage((from, buffer, offset, length) -> messages.add(buffer.getStringWithoutLengthAscii(
                    offset, length)));
            transport.onPut((from, immediate) -> notified.add(immediate));
        }

        @Override
        public void close() {
            driven = false;
            transport.close();
        }
    }

    /** The two ends of a connection. */
    record Connection(Member a, Member b, Endpoint toB, Endpoint toA) {
        /** Opens b's region at a. */
        RemoteRegion open(MemoryRegion ofB) {
            return toB.open(RegionKey.decode(ofB.key().encode()));
        }
    }

    TransportConfig config() {
        return environment.config(secret);
    }

    Member member() {
        return member(c -> c);
    }

    Member member(UnaryOperator<TransportConfig> change) {
        Member member = new Member(environment.open(change.apply(config())));
        members.add(member);
        return member;
    }

    /** Adds a member with a tap on its wire. */
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

    /** Lets all members work until a condition holds. */
    void await(BooleanSupplier condition, String what) {
        Transport first = members.stream().filter(m -> m.driven).findFirst().orElseThrow().transport;
        long begin = first.nanoTime();
        long idle = begin;
        while (!condition.getAsBoolean()) {
            long now = first.nanoTime();
            if (work() > 0) {
                idle = now;
            } else if (now - begin > TIMEOUT.toNanos()) {
                throw new AssertionError("waited " + TIMEOUT + " for " + what);
            } else {
                first.idle(now - idle);
            }
        }
    }

    /** Lets all members work for a while. */
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

    /** Closes all members; at the same time, unless they are simulated, because some wires wait for their peers. */
    @Override
    public void close() {
        if (environment.isSimulated()) {
            members.forEach(Member::close);
        } else {
            List<CompletableFuture<Void>> closing = members.stream()
                    .map(each -> CompletableFuture.runAsync(each::close, task -> Thread.ofPlatform().start(task)))
                    .toList();
            closing.forEach(CompletableFuture::join);
        }
        if (ownsSite) {
            environment.close();
        }
    }
}
