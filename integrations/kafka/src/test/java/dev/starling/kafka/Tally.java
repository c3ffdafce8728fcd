package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Counts results by id and version, and checks that each result is that of one version. */
final class Tally {
    private final byte[] seen;
    private final Map<Long, Integer> versions = new TreeMap<>();
    private long checksum;
    private int count;

    Tally(int ids) {
        seen = new byte[ids];
    }

    void add(ConsumerRecord<byte[], byte[]> result) {
        long id = Records.id(result.key());
        long version = Long.parseLong(Records.header(result, StreamHeaders.VERSION));
        float score = ByteBuffer.wrap(result.value()).order(ByteOrder.LITTLE_ENDIAN).getFloat();
        if (score != SumModel.expected(id, version)) {
            throw new AssertionError("id " + id + " scored " + score + " by version " + version + ", expected "
                    + SumModel.expected(id, version));
        }
        if (seen[(int) id] < 100) {
            seen[(int) id]++;
        }
        versions.merge(version, 1, Integer::sum);
        checksum += mixed(id);
        count++;
    }

    private static long mixed(long id) {
        long h = (id + 1) * 0x9E3779B97F4A7C15L;
        return (h ^ h >>> 29) * 0xBF58476D1CE4E5B9L;
    }

    int count() {
        return count;
    }

    Map<Long, Integer> versions() {
        return versions;
    }

    void requireEachOnce() {
        long expected = 0;
        int wrong = 0;
        for (int id = 0; id < seen.length; id++) {
            expected += mixed(id);
            wrong += seen[id] == 1 ? 0 : 1;
        }
        assertThat(wrong).as("ids that were not scored exactly once").isZero();
        assertThat(count).isEqualTo(seen.length);
        assertThat(checksum).as("order-free checksum").isEqualTo(expected);
    }
}
