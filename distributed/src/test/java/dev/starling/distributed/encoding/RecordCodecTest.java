package dev.starling.distributed.encoding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class RecordCodecTest {
    private static final RecordCodec<Shape> CODEC = RecordCodec.of(Shape.class);
    private static final List<Shape> ALL = List.of(new Empty(), new Scalar(-7, Long.MIN_VALUE, Math.PI, true),
            new Named("ß\n=\0", Path.of("a", "b"), Map.of("x", "1"), List.of(3, -4)),
            new Named("", Path.of(""), Map.of(), List.of()),
            new Box(List.of(new Side(2, new Empty()), new Side(1, new Scalar(0, 0, 0, false)))));

    private sealed interface Shape { }

    private record Empty() implements Shape { }

    private sealed interface Sized extends Shape { }

    private record Scalar(int count, long size, double area, boolean open) implements Sized { }

    private record Named(String name, Path path, Map<String, String> notes, List<Integer> numbers) implements Sized { }

    private record Box(List<Side> sides) implements Shape { }

    private record Side(int number, Shape shape) {
        Side {
            if (number < 0) {
                throw new IllegalArgumentException("sides have numbers from 0 on, got " + number);
            }
        }
    }

    private record Bytes(byte[] bytes) { }

    private record Empties(List<Empty> all) { }

    @Test
    void decodesWhatItEncodes() throws IOException {
        for (Shape shape : ALL) {
            assertThat(CODEC.decode(CODEC.encode(shape))).isEqualTo(shape);
        }
        RecordCodec<Bytes> bytes = RecordCodec.of(Bytes.class);
        assertThat(bytes.decode(bytes.encode(new Bytes(new byte[] {1, -2}))).bytes()).containsExactly(1, -2);
    }

    @Test
    void refusesMessagesThatAreTooShortOrTooLong() {
        for (Shape shape : ALL) {
            byte[] whole = CODEC.encode(shape);
            for (int length = 0; length <= whole.length + 1; length++) {
                if (length != whole.length) {
                    byte[] other = Arrays.copyOf(whole, length);
                    assertThatThrownBy(() -> CODEC.decode(other)).isInstanceOf(IOException.class);
                }
            }
        }
    }

    @Test
    void refusesWhatARecordRefuses() {
        byte[] encoded = CODEC.encode(new Box(List.of(new Side(0, new Empty()))));
        // The sign of the side's number, after the kind of the shape and the length of the list.
        encoded[5] = -1;
        assertThatThrownBy(() -> CODEC.decode(encoded)).isInstanceOf(IOException.class)
                .hasMessageContaining("sides have numbers from 0 on");
    }

    /** Elements without bytes would cost the receiver memory and time, but the sender nothing. */
    @Test
    void refusesListsThatAnnounceMoreElementsThanTheyHaveBytes() {
        RecordCodec<Empties> codec = RecordCodec.of(Empties.class);
        for (byte[] encoded : new byte[][] {{0, 1, 0, 0}, {0, 0, 0, 2, 0}, {-1, -1, -1, -1}}) {
            assertThatThrownBy(() -> codec.decode(encoded)).isInstanceOf(IOException.class)
                    .hasMessageContaining("cut off");
        }
    }

    /** Any bytes give a value or an {@link IOException}, however long the texts and lists that they announce. */
    @Test
    void survivesAnyBytes() {
        SplittableRandom random = new SplittableRandom(1);
        int decoded = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = CODEC.encode(ALL.get(random.nextInt(ALL.size())));
            bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            try {
                CODEC.decode(bytes);
                decoded++;
            } catch (IOException expected) {
                assertThat(expected).hasMessageNotContaining("OutOfMemory");
            }
        }
        assertThat(decoded).isPositive();
    }
}
