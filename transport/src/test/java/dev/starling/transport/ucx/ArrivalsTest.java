package dev.starling.transport.ucx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openucx.jucx.ucp.UcpEndpoint;

/** Processing of messages that arrive in any order, from unknown endpoints. */
class ArrivalsTest {
    private static final long MAX_EARLY = 1 << 20;

    private final Arena arena = Arena.ofConfined();
    private final List<UcpEndpoint> failed = new ArrayList<>();
    private final Arrivals arrivals = new Arrivals(new ArrayList<>(), failed, MAX_EARLY);
    /** A message with link and number as a sender writes them, followed by a body. */
    private final UnsafeBuffer message = new UnsafeBuffer(arena.allocate(1 << 16, 8).address(), 1 << 16);
    private final List<List<Long>> received = new ArrayList<>();

    @BeforeEach
    void begin() {
        for (int link = 0; link < 4; link++) {
            received.add(new ArrayList<>());
        }
        arrivals.begin((buffer, offset, length) -> {
            int link = (int) buffer.getLong(offset);
            long number = buffer.getLong(offset + Long.BYTES);
            received.get(link).add(number);
        }, Integer.MAX_VALUE);
    }

    @AfterEach
    void end() {
        arena.close();
    }

    private void send(long link, long number, int length) {
        Envelope.write(message, 0, link, number);
        message.putLong(Envelope.LENGTH, link);
        message.putLong(Envelope.LENGTH + Long.BYTES, number);
        arrivals.message(0, 0, message.addressOffset(), Envelope.LENGTH + length, null);
    }

    /** Sends a message whose header comes with the envelope and whose body lies apart. */
    private void sendApart(long link, long number, int length) {
        Envelope.write(message, 0, link, number);
        message.putLong(Envelope.LENGTH, link);
        message.putLong(Envelope.LENGTH + Long.BYTES, number);
        arrivals.message(message.addressOffset(), Envelope.LENGTH + 2 * Long.BYTES,
                message.addressOffset() + (1 << 15), length, null);
    }

    private static Long[] upTo(int count) {
        Long[] all = new Long[count];
        Arrays.setAll(all, i -> (long) i);
        return all;
    }

    private int links() {
        int[] links = {0};
        arrivals.inflows().forEach(_ -> links[0]++);
        return links[0];
    }

    @Test
    void restoresTheOrderOfTheMessagesOfEachLink() {
        int each = 300;
        List<int[]> all = new ArrayList<>();
        for (int i = 0; i < 4 * each; i++) {
            all.add(new int[] {i % 4, i / 4});
        }
        Random random = new Random(3);
        Collections.shuffle(all, random);
        for (int[] next : all) {
            int length = 100 + random.nextInt(200);
            if (next[1] % 3 == 0) {
                send(next[0], next[1], length);
            } else {
                sendApart(next[0], next[1], length);
            }
            if (random.nextInt(4) == 0) {
                send(next[0], next[1], 100);
            }
        }
        assertThat(arrivals.end()).isEqualTo(4 * each);
        assertThat(received).allSatisfy(numbers -> assertThat(numbers).containsExactly(upTo(each)));
        assertThat(arrivals.earlyBytes()).isZero();
        assertThat(failed).isEmpty();
    }

    @Test
    void limitsTheMemoryOfEarlyMessages() {
        for (int number = 1; number <= 10; number++) {
            send(0, number, 1000);
            sendApart(1, number, 100);
        }
        long honest = arrivals.earlyBytes();
        assertThat(honest).isBetween(10_000L, 20_000L);
        for (int link = 2; link < 4; link++) {
            for (int number = 1; number <= 1000; number++) {
                send(link, number * 1_000_003L, 30_000);
                assertThat(arrivals.earlyBytes()).isBetween(honest, MAX_EARLY);
            }
        }
        // Tiny messages have their overhead, too.
        for (int number = 1; number <= 10_000; number++) {
            send(1000, number, 0);
            assertThat(arrivals.earlyBytes()).isBetween(honest, MAX_EARLY);
        }
        assertThat(arrivals.earlyBytes()).isEqualTo(honest);
        for (int link = 0; link < 4; link++) {
            send(link, 0, 100);
        }
        arrivals.end();
        assertThat(received.get(0)).containsExactly(upTo(11));
        assertThat(received.get(1)).containsExactly(upTo(11));
        assertThat(received.get(2)).as("messages of the link that sent too much").isEmpty();
        assertThat(received.get(3)).isEmpty();
        assertThat(arrivals.earlyBytes()).isZero();
    }

    @Test
    void ignoresDuplicatesOfEarlyAndOfDeliveredMessages() {
        send(0, 0, 100);
        send(0, 2, 100);
        long once = arrivals.earlyBytes();
        for (long number : new long[] {2, 2, 0, -1, Long.MIN_VALUE}) {
            send(0, number, 100);
        }
        assertThat(arrivals.earlyBytes()).isEqualTo(once);
        send(0, 1, 100);
        assertThat(arrivals.end()).isEqualTo(3);
        assertThat(received.getFirst()).containsExactly(upTo(3));
    }

    @Test
    void forgetsTheOldestOfTooManyUnknownLinks() {
        Random random = new Random(4);
        for (int i = 0; i < 20_000; i++) {
            send(4 + random.nextLong(Long.MAX_VALUE - 4), 1 + random.nextInt(1000), 1000);
        }
        assertThat(links()).isEqualTo(256);
        assertThat(arrivals.earlyBytes()).isBetween(256 * 1000L, 256 * 1300L);
        send(0, 1, 100);
        send(0, 0, 100);
        arrivals.end();
        assertThat(received.getFirst()).containsExactly(upTo(2));
    }

    @Test
    void propagatesAnExceptionOfTheInboxOnceEverythingIsDelivered() {
        arrivals.begin((buffer, offset, _) -> {
            received.get(1).add(buffer.getLong(offset + Long.BYTES));
            throw new AssertionError("thrown by the inbox");
        }, Integer.MAX_VALUE);
        send(1, 1, 100);
        assertThatCode(() -> send(1, 0, 100)).doesNotThrowAnyException();
        assertThatThrownBy(arrivals::end).isInstanceOf(AssertionError.class).hasMessage("thrown by the inbox");
        assertThat(received.get(1)).containsExactly(upTo(2));
        assertThat(arrivals.end()).isEqualTo(2);
    }
}
