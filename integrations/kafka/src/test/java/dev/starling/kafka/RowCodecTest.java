package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.api.Record;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RowCodecTest {
    private static final String SUM = "a".repeat(64);

    @Test
    void decodesWhatItEncodes() {
        float[] row = {0, 1.5f, -2e-30f, Float.MAX_VALUE, 0};
        for (RowCodec codec : new RowCodec[] {RowCodec.floats(3), RowCodec.json(3)}) {
            float[] into = new float[5];
            codec.decode(codec.encode(row, 1, 3), into, 2);
            assertThat(into).containsExactly(0, 0, 1.5f, -2e-30f, Float.MAX_VALUE);
        }
        assertThat(RowCodec.floats(1).encode(new float[] {1}, 0, 1)).containsExactly(0, 0, 0x80, 0x3f);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {"[1, 2]|3 numbers, got 2", "[1, 2, 3, 4]|got 4", "1, 2, 3|JSON array",
        "[1, two, 3]|column 1 must be a number, got \"two\"", "[1, 2, NaN]|column 2", "[1, 2, 0x1p3]|column 2",
        "[1, 2, 1e99]|finite, got Infinity in column 2", "[1, 2, 3f]|column 2", "[1, 2, 03]|column 2",
        "[1, , 3]|column 1", "[]|got 1", "[[1], 2, 3]|column 0"})
    void refusesWhatIsNoRow(String json, String error) {
        assertThatThrownBy(() -> RowCodec.json(3).decode(json.getBytes(StandardCharsets.UTF_8), new float[3], 0))
                .isInstanceOf(StreamException.class).hasMessageContaining(error);
    }

    @Test
    void readsAnnouncementsThatItWrites() {
        ModelVersion version = new ModelVersion("näme \"x\"\\", 7, "/a b/ü\n.safetensors", SUM);
        assertThat(ModelVersion.ofJson(version.toJson())).isEqualTo(version);
        assertThat(ModelVersion.ofJson(("{ \"sha256\" : \"" + SUM + "\",\"version\":3 , \"by\": \"\\u0041\", "
                + "\"uri\": \"f\", \"name\": \"m\" } ").getBytes(StandardCharsets.UTF_8)))
                .isEqualTo(new ModelVersion("m", 3, "f", SUM));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "{", "{}", "[]", "{\"name\": \"m\"}", "{\"name\": \"m\", \"name\": \"n\"}",
        "{\"name\": \"m\\x\"}", "{\"name\": {}}", "{\"name\": \"m\"} more", "{\"name\": \"m\",}",
        "{\"version\": 99999999999999999999}", "{\"name\": \"\\u12\"}"})
    void refusesMalformedAnnouncements(String json) {
        assertThatThrownBy(() -> ModelVersion.ofJson(json.getBytes(StandardCharsets.UTF_8)))
                .isInstanceOf(StreamException.class);
    }

    @Test
    void refusesAnnouncementsThatAreTooLarge() {
        assertThatThrownBy(() -> ModelVersion.ofJson(new byte[256 * 1024 + 1])).isInstanceOf(StreamException.class)
                .hasMessageContaining("at most 262144 bytes");
    }

    @Test
    void storesRecordsWithLongHeaders() {
        RecordHeaders headers = new RecordHeaders();
        headers.add("k".repeat(70_000), new byte[3]).add("none", null);
        WaitingRecord waiting = WaitingRecord.decode(WaitingRecord.encode(new Record<>(null, new byte[2], 5, headers),
                "topic", 1, 7));
        assertThat(waiting.headers()).isEqualTo(headers);
        assertThat(waiting.value()).hasSize(2);
        assertThat(waiting.key()).isNull();
        assertThat(waiting.offset()).isEqualTo(7);
    }

    @Test
    void keepsWhatFitsIntoADeadLetter() {
        byte[] half = new byte[DeadLetter.MAX_BYTES / 2];
        RecordHeaders headers = new RecordHeaders();
        headers.add("h", half);
        DeadLetter letter = DeadLetter.of(half, half, headers, 0, "e".repeat(10_000), "topic", 1, 7,
                1 << 20);
        assertThat(letter.key()).hasSameSizeAs(half);
        assertThat(letter.value()).hasSameSizeAs(half);
        assertThat(letter.headers().lastHeader("h")).isNull();
        assertThat(letter.error()).hasSize(2001);
        assertThat(StreamHeaders.text(letter.headers(), StreamHeaders.OMITTED))
                .isEqualTo("headers of 262155 bytes");
        assertThat(StreamHeaders.bytes(letter.key(), letter.value(), letter.headers())).isLessThan(1 << 20);
    }

    @Test
    void fitsADeadLetterIntoASmallerLimit() {
        int limit = 256 * 1024;
        DeadLetter letter = DeadLetter.of(null, new byte[limit], new RecordHeaders(), 0, "e".repeat(10_000), "topic", 1,
                7, limit);
        assertThat(letter.value()).isNull();
        assertThat(StreamHeaders.text(letter.headers(), StreamHeaders.OMITTED)).isEqualTo("value of 262144 bytes");
        assertThat(StreamHeaders.bytes(letter.key(), letter.value(), letter.headers())).isLessThan(limit);
    }
}
