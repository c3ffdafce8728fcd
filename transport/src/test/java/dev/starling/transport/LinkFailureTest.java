package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A link that fails while it is in use, by an exception of its wire. */
class LinkFailureTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    /** A wire whose links to some addresses have no room. */
    private static final class FullLinkWire extends ForwardingWire {
        private final Set<String> full;
        private final RemoteWrites remoteWrites;
        /** Number of links that were closed. */
        private int closed;

        FullLinkWire(Wire wire, Set<String> full, RemoteWrites remoteWrites) {
            super(wire);
            this.full = full;
            this.remoteWrites = remoteWrites;
        }

        @Override
        public RemoteWrites remoteWrites() {
            return remoteWrites;
        }

        @Override
        public Link open(String to) {
            Link link = wire.open(to);
            return new Link() {
                @Override
                public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body,
                        int bodyOffset, int bodyLength) {
                    if (full.contains(to)) {
                        throw new TransportException(Problem.NO_ROOM, "the disk is full", "free some");
                    }
                    return link.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
                }

                @Override
                public void close() {
                    closed++;
                    link.close();
                }
            };
        }
    }

    /** Memory of peers that cannot be opened. */
    private record UnopenedMemory(Problem problem) implements RemoteWrites {
        @Override
        public Registration register(MemorySegment memory) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Target attach(Link link, byte[] key) {
            throw new TransportException(problem, "it cannot be opened", "");
        }
    }

    /** A put to memory with a wrong key ends the connection; a link that is broken ends it when it sends. */
    @ParameterizedTest
    @EnumSource(names = {"ARGUMENT", "LOST"})
    void doesNotThrowWhenAPutCannotBegin(Problem problem) {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        List<Boolean> arrived = new ArrayList<>();
        Wire wire = new FullLinkWire(Transport.providers().get("local").open(config.wire()), Set.of(),
                new UnopenedMemory(problem));
        try (Transport here = Transport.over(wire, config); Transport one = Transport.open(config)) {
            Endpoint toOne = here.connect(one.address(), new byte[0]);
            here.await(() -> {
                one.doWork();
                return toOne.isConnected();
            }, TIMEOUT, "the connection");
            MemoryRegion source = one.register(8);
            RemoteRegion target = toOne.open(new RegionKey(1, 1, 8, 0, 0, new byte[1]), false);
            assertThat(toOne.put(source, 0, target, 0, 8, arrived::add)).isEqualTo(Endpoint.OK);
            here.doWork();
            assertThat(toOne.isConnected()).isEqualTo(problem == Problem.LOST);
            assertThat(toOne.reason()).isEqualTo(problem == Problem.LOST ? "" : "it cannot be opened");
            toOne.close();
            assertThat(arrived).containsExactly(false);
        }
    }

    @Test
    void closesTheLinkAlsoIfTheCompletionOfAPutThrows() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        FullLinkWire wire = new FullLinkWire(Transport.providers().get("local").open(config.wire()), Set.of(),
                new UnopenedMemory(Problem.LOST));
        try (Transport here = Transport.over(wire, config); Transport one = Transport.open(config)) {
            Endpoint toOne = here.connect(one.address(), new byte[0]);
            here.await(() -> {
                one.doWork();
                return toOne.isConnected();
            }, TIMEOUT, "the connection");
            MemoryRegion source = one.register(8);
            // The put does not begin, because the memory cannot be opened yet.
            RemoteRegion target = toOne.open(new RegionKey(1, 1, 8, 0, 0, new byte[1]), false);
            assertThat(toOne.put(source, 0, target, 0, 8, _ -> {
                throw new IllegalStateException("thrown by the completion");
            })).isEqualTo(Endpoint.OK);
            assertThatThrownBy(toOne::closeIfRoom).hasMessage("thrown by the completion");
            assertThat(wire.closed).isOne();
        }
    }

    @Test
    void losesOnlyThatPeerAndReportsTheReason() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(4));
        Set<String> full = new HashSet<>();
        List<String> lost = new ArrayList<>();
        Wire wire = new FullLinkWire(Transport.providers().get("local").open(config.wire()), full,
                new UnopenedMemory(Problem.ARGUMENT));
        try (Transport here = Transport.over(wire, config);
                Transport one = Transport.open(config); Transport other = Transport.open(config)) {
            here.onConnection(new ConnectionHandler() {
                @Override
                public void onLost(Endpoint endpoint) {
                    lost.add(endpoint.reason());
                }
            });
            Endpoint toOne = here.connect(one.address(), new byte[0]);
            Endpoint toOther = here.connect(other.address(), new byte[0]);
            Runnable all = () -> {
                one.doWork();
                other.doWork();
            };
            here.await(() -> {
                all.run();
                return toOne.isConnected() && toOther.isConnected();
            }, TIMEOUT, "connections");

            full.add(one.address());
            // The next heartbeat fails.
            here.await(() -> {
                all.run();
                return !toOne.isConnected();
            }, TIMEOUT, "the loss");
            assertThat(toOne.state()).isEqualTo(Endpoint.State.LOST);
            assertThat(toOne.reason()).isEqualTo("the disk is full; free some");
            assertThat(lost).containsExactly("the disk is full; free some");

            UnsafeBuffer message = new UnsafeBuffer(new byte[8]);
            assertThat(toOne.send(message, 0, 8)).isEqualTo(Endpoint.CLOSED);
            assertThat(toOther.send(message, 0, 8)).isEqualTo(Endpoint.OK);
            full.add(other.address());
            assertThat(toOther.send(message, 0, 8)).isEqualTo(Endpoint.CLOSED);
            assertThat(toOther.reason()).isEqualTo("the disk is full; free some");
        }
    }
}
