package dev.starling.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.FrameForge;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.Protection;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Connections whose frames pass a man in the middle: it can read, change, drop, repeat and reorder them. */
@Timeout(60)
class ProtectedLinkTest {
    private static final Secret SECRET = Secret.random();
    private static final String MIDDLE = "127.0.0.2";
    private static final Duration LIVENESS = Duration.ofSeconds(4);
    private static final int MARKED = 1 << 20;
    private static final byte[] MARK = "the weights of layer 7".getBytes(StandardCharsets.US_ASCII);

    private static TransportConfig config(Protection protection) {
        return TransportConfig.of("tcp", SECRET).sharedMemory(false).livenessTimeout(LIVENESS).protection(protection);
    }

    /** A receiver that is reached through a man in the middle, a victim of the attack and another member. */
    private static final class Scene implements AutoCloseable {
        final Transport receiver;
        final Transport victim;
        final Transport other;
        final ManInTheMiddle middle;
        final Endpoint fromVictim;
        final Endpoint fromOther;
        final List<Endpoint> accepted = new ArrayList<>();
        final List<Endpoint> lost = new ArrayList<>();
        final List<String> messages = new ArrayList<>();

        Scene(Protection protection, ManInTheMiddle.Attack attack) throws IOException {
            receiver = Transport.open(config(protection).at(MIDDLE, 0).option("bind", "127.0.0.1"));
            victim = Transport.open(config(protection));
            other = Transport.open(config(protection));
            String address = receiver.address();
            middle = new ManInTheMiddle(MIDDLE, Integer.parseInt(address.substring(address.indexOf(':') + 1)), attack);
            receiver.onConnection(new ConnectionHandler() {
                @Override
                public void onAccepted(Endpoint endpoint) {
                    accepted.add(endpoint);
                }

                @Override
                public void onLost(Endpoint endpoint) {
                    lost.add(endpoint);
                }
            });
            receiver.onMessage((from, buffer, offset, length) -> messages.add(buffer.getStringWithoutLengthAscii(
                    offset, length)));
            fromVictim = victim.connect(address, new byte[0]);
            await(() -> fromVictim.isConnected() && accepted.size() == 1, "the victim");
            fromOther = other.connect(address, new byte[0]);
            await(() -> fromOther.isConnected() && accepted.size() == 2, "the other member");
        }

        void send(Endpoint by, String... texts) {
            for (String text : texts) {
                UnsafeBuffer message = new UnsafeBuffer(text.getBytes(StandardCharsets.US_ASCII));
                await(() -> by.send(message, 0, message.capacity()) == Endpoint.OK, "room");
            }
        }

        void await(BooleanSupplier condition, String what) {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (!condition.getAsBoolean()) {
                assertThat(System.nanoTime()).as("in time: %s", what).isLessThan(deadline);
                if (victim.doWork() + other.doWork() + receiver.doWork() == 0) {
                    receiver.idle(0);
                }
            }
        }

        /** Checks that the attack ended the victim's connection, for this reason on both sides, and no other. */
        void checkOnlyTheVictimIsLost(String reason) {
            await(() -> !lost.isEmpty() && !fromVictim.isConnected(), "the end of the connection");
            assertThat(lost).containsExactly(accepted.getFirst());
            assertThat(lost.getFirst().state()).isEqualTo(Endpoint.State.LOST);
            assertThat(lost.getFirst().reason()).contains(victim.address()).contains(reason);
            assertThat(fromVictim.state()).isEqualTo(Endpoint.State.LOST);
            assertThat(fromVictim.reason()).contains(receiver.address()).contains(reason);
            send(fromOther, "still here");
            await(() -> messages.contains("still here"), "the other member's message");
            assertThat(fromOther.isConnected()).isTrue();
        }

        @Override
        public void close() throws IOException {
            victim.close();
            other.close();
            receiver.close();
            middle.close();
        }
    }

    /** An attack on the n-th message, from 1, of the victim. */
    private static ManInTheMiddle.Attack onMessage(int number, ManInTheMiddle.Attack attack) {
        AtomicInteger count = new AtomicInteger();
        return (connection, frame, forward) -> {
            if (connection == 0 && FrameForge.type(frame) == FrameForge.MESSAGE
                    && count.incrementAndGet() == number) {
                attack.on(connection, frame, forward);
            } else {
                forward.accept(frame);
            }
        };
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void endsTheConnectionOfAFrameThatWasChanged(Protection protection) throws IOException {
        // In the type, the sequence, the nonce, the body and the tag.
        for (int at : new int[] {3, 16, 24, 33, -1}) {
            ManInTheMiddle.Attack change = onMessage(2, (connection, frame, forward) -> {
                frame[Math.floorMod(at, frame.length)] ^= (byte) (at == 3 ? 13 : 1 << 6);
                forward.accept(frame);
            });
            try (Scene scene = new Scene(protection, change)) {
                scene.send(scene.fromVictim, "one", "two", "three");
                scene.checkOnlyTheVictimIsLost("frames were lost");
                assertThat(scene.messages).containsExactly("one", "still here");
                assertThat(scene.lost.getFirst().reason()).contains("changed on their way");
                assertThat(scene.receiver.counters().refusedChecksums()).isPositive();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void endsTheConnectionOfAFrameThatIsMissingOrLate(Protection protection) throws IOException {
        try (Scene scene = new Scene(protection, onMessage(2, (connection, frame, forward) -> { }))) {
            scene.send(scene.fromVictim, "one", "two", "three");
            scene.checkOnlyTheVictimIsLost("frames were lost");
            assertThat(scene.messages).containsExactly("one", "still here");
        }
        AtomicInteger count = new AtomicInteger();
        List<byte[]> held = new ArrayList<>();
        ManInTheMiddle.Attack swap = (connection, frame, forward) -> {
            int number = connection == 0 && FrameForge.type(frame) == FrameForge.MESSAGE ? count.incrementAndGet() : 0;
            if (number == 2) {
                held.add(frame);
            } else {
                forward.accept(frame);
            }
            if (number == 3) {
                held.forEach(forward);
            }
        };
        try (Scene scene = new Scene(protection, swap)) {
            scene.send(scene.fromVictim, "one", "two", "three");
            scene.checkOnlyTheVictimIsLost("frames were lost");
            assertThat(scene.messages).containsExactly("one", "still here");
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void receivesRepeatedFramesOnce(Protection protection) throws IOException {
        List<byte[]> earlier = new ArrayList<>();
        ManInTheMiddle.Attack repeat = (connection, frame, forward) -> {
            forward.accept(frame);
            if (connection == 0) {
                earlier.add(frame);
                earlier.forEach(forward);
            }
        };
        try (Scene scene = new Scene(protection, repeat)) {
            scene.send(scene.fromVictim, "one", "two", "three");
            scene.await(() -> scene.messages.size() >= 3 && scene.receiver.counters().refusedReplays() >= 6, "all");
            scene.send(scene.fromVictim, "four");
            scene.await(() -> scene.messages.contains("four"), "the last");
            assertThat(scene.messages).containsExactly("one", "two", "three", "four");
            assertThat(scene.fromVictim.isConnected()).isTrue();
            assertThat(scene.lost).isEmpty();
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void refusesFramesOfAnotherConnection(Protection protection) throws IOException {
        List<byte[]> others = new CopyOnWriteArrayList<>();
        ManInTheMiddle.Attack mix = (connection, frame, forward) -> {
            forward.accept(frame);
            if (connection == 1 && FrameForge.type(frame) == FrameForge.MESSAGE) {
                others.add(frame);
            } else if (FrameForge.type(frame) == FrameForge.MESSAGE) {
                // With the victim's session and the next number.
                for (byte[] each : others) {
                    byte[] forged = each.clone();
                    System.arraycopy(frame, 8, forged, 8, 8);
                    forged[16] = (byte) (frame[16] + 1);
                    forward.accept(forged);
                }
            }
        };
        try (Scene scene = new Scene(protection, mix)) {
            scene.send(scene.fromOther, "another's");
            scene.await(() -> scene.messages.size() == 1, "the other's message");
            scene.send(scene.fromVictim, "one");
            scene.await(() -> scene.receiver.counters().refusedChecksums() > 0, "the forged frame");
            scene.send(scene.fromVictim, "two");
            scene.await(() -> scene.messages.contains("two"), "the last");
            assertThat(scene.messages).containsExactly("another's", "one", "two");
            assertThat(scene.lost).isEmpty();
        }
    }

    private static MemorySegment fill(MemoryRegion region) {
        for (int i = 0; i + MARK.length <= MARKED; i += MARK.length) {
            MemorySegment.copy(MARK, 0, region.memory(), ValueLayout.JAVA_BYTE, i, MARK.length);
        }
        return region.memory();
    }

    @ParameterizedTest
    @EnumSource
    void hidesMessagesAndPutsIfItEncrypts(Protection protection) throws IOException {
        ByteArrayOutputStream seen = new ByteArrayOutputStream();
        Consumer<byte[]> record = seen::writeBytes;
        ManInTheMiddle.Attack listen = (connection, frame, forward) -> {
            if (FrameForge.type(frame) == FrameForge.MESSAGE || FrameForge.type(frame) == FrameForge.PUT) {
                record.accept(frame);
            }
            forward.accept(frame);
        };
        try (Scene scene = new Scene(protection, listen)) {
            String text = new String(MARK, StandardCharsets.US_ASCII);
            scene.send(scene.fromVictim, text);
            MemoryRegion source = scene.victim.register(MARKED);
            MemorySegment sent = fill(source);
            MemoryRegion target = scene.receiver.register(MARKED);
            RemoteRegion remote = scene.fromVictim.open(target.key());
            boolean[] done = new boolean[1];
            assertThat(scene.fromVictim.put(source, 0, remote, 0, MARKED, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            scene.await(() -> done[0], "the put");
            assertThat(target.memory().mismatch(sent)).isEqualTo(-1);
            assertThat(scene.messages).containsExactly(text);
            assertThat(seen.size()).isGreaterThan(MARKED);
            assertThat(seen.toString(StandardCharsets.ISO_8859_1).contains(text))
                    .isEqualTo(protection != Protection.ENCRYPTED);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void writesNothingOfAPutThatWasChanged(Protection protection) throws IOException {
        AtomicInteger puts = new AtomicInteger();
        ManInTheMiddle.Attack change = (connection, frame, forward) -> {
            if (connection == 0 && FrameForge.type(frame) == FrameForge.PUT && puts.incrementAndGet() == 3) {
                frame[frame.length / 2] ^= 1;
            }
            forward.accept(frame);
        };
        try (Scene scene = new Scene(protection, change)) {
            int piece = FrameForge.pieceLength(scene.fromVictim);
            int bytes = 4 * piece;
            MemoryRegion source = scene.victim.register(MARKED);
            fill(source);
            MemoryRegion target = scene.receiver.register(MARKED);
            RemoteRegion remote = scene.fromVictim.open(target.key());
            List<Boolean> outcome = new ArrayList<>();
            assertThat(scene.fromVictim.put(source, 0, remote, 0, bytes, outcome::add)).isEqualTo(Endpoint.OK);
            scene.checkOnlyTheVictimIsLost("frames were lost");
            assertThat(outcome).containsExactly(false);
            byte[] written = target.memory().toArray(ValueLayout.JAVA_BYTE);
            assertThat(Arrays.mismatch(written, 0, 2 * piece, source.memory().toArray(ValueLayout.JAVA_BYTE), 0,
                    2 * piece)).isEqualTo(-1);
            assertThat(Arrays.mismatch(written, 2 * piece, MARKED, new byte[MARKED], 2 * piece, MARKED)).isEqualTo(-1);
        }
    }

    @Test
    void refusesAnotherProtectionAndReportsItOnBothSides() {
        try (Transport encrypts = Transport.open(config(Protection.ENCRYPTED));
                Transport signs = Transport.open(config(Protection.AUTHENTICATED))) {
            Endpoint one = encrypts.connect(signs.address(), new byte[0]);
            Endpoint two = signs.connect(encrypts.address(), new byte[0]);
            encrypts.await(() -> {
                signs.doWork();
                return one.state() == Endpoint.State.REFUSED && two.state() == Endpoint.State.REFUSED;
            }, Duration.ofSeconds(10), "the refusals");
            assertThat(one.reason()).contains(signs.address()).contains("protection authenticated")
                    .contains("this one encrypted").contains("give both the same protection");
            assertThat(two.reason()).contains(encrypts.address()).contains("protection encrypted")
                    .contains("this one authenticated");
            assertThat(encrypts.counters().refusedStrangers()).isPositive();
            assertThat(signs.counters().refusedStrangers()).isPositive();
        }
    }

    @Test
    void staysPlainWithinAHostUnlessMemoryMustNotBeShared() {
        try (TcpWire shares = TcpWire.open(TcpSettings.of(TransportConfig.of("tcp", SECRET).wire()));
                TcpWire doesNot = TcpWire.open(TcpSettings.of(config(Protection.ENCRYPTED).wire()))) {
            assertThat(shares.leavesHost("127.0.0.1:80")).isFalse();
            assertThat(shares.leavesHost("192.0.2.1:80")).isTrue();
            assertThat(doesNot.leavesHost("127.0.0.1:80")).isTrue();
        }
    }
}
