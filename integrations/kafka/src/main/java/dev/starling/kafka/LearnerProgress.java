package dev.starling.kafka;

import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** The records of a topic that were learned: offsets, counts and a checksum, saved in the notes of a checkpoint. */
final class LearnerProgress {
    private static final String OFFSET = "kafka.offset.";
    private static final String TOPIC_ID = "kafka.topic-id";
    /** The id of every topic of brokers before Kafka 2.8, which give their topics ids when they are updated. */
    private static final String NO_ID = Uuid.ZERO_UUID.toString();

    private final String topic;
    /** Distinguishes the topic from another one of its name, whose offsets are of other records. */
    private final String topicId;
    /** The offset of the next record by partition. */
    private final Map<Integer, Long> offsets = new TreeMap<>();
    long trained;
    long heldOut;
    long refused;
    private long checksum;

    LearnerProgress(String topic, String topicId) {
        this.topic = topic;
        this.topicId = topicId;
    }

    long records() {
        return trained + heldOut + refused;
    }

    long checksum() {
        return checksum;
    }

    /** Returns the offset to resume at, or {@code null} for a partition that is new. */
    Long offset(TopicPartition partition) {
        return offsets.get(partition.partition());
    }

    /** Adds a record to the offsets and the checksum. */
    void count(ConsumerRecord<byte[], byte[]> record) {
        offsets.put(record.partition(), record.offset() + 1);
        checksum += hash(record.partition(), record.offset(), record.value());
    }

    /**
     * Moves to the consumer's position, which is also past markers of transactions and known where no record was read.
     *
     * @return whether the partition was elsewhere
     */
    boolean reach(TopicPartition partition, long position) {
        Long before = offsets.put(partition.partition(), position);
        return before == null || before != position;
    }

    /** Returns a hash of a record's place and value. */
    static long hash(int partition, long offset, byte[] value) {
        CRC32C crc = new CRC32C();
        if (value != null) {
            crc.update(value);
        }
        long h = offset * 0x9E3779B97F4A7C15L + partition * 0xC2B2AE3D27D4EB4FL + crc.getValue();
        h = (h ^ h >>> 32) * 0xD6E8FEB86659FD93L;
        h = (h ^ h >>> 32) * 0xD6E8FEB86659FD93L;
        return h ^ h >>> 32;
    }

    /** Returns whether a record is held out: one in {@code interval}, chosen by a hash of its place; none if 0. */
    static boolean isHeldOut(ConsumerRecord<byte[], byte[]> record, int interval) {
        return interval > 0 && Long.remainderUnsigned(hash(record.partition(), record.offset(), null), interval) == 0;
    }

    /** Returns the topic and the offsets for messages. */
    String place() {
        return "topic " + topic + " before offsets " + offsets;
    }

    void save(Map<String, String> notes) {
        notes.put("kafka.topic", topic);
        notes.put(TOPIC_ID, topicId);
        offsets.forEach((partition, offset) -> notes.put(OFFSET + partition, offset.toString()));
        notes.put("kafka.trained", Long.toString(trained));
        notes.put("kafka.held-out", Long.toString(heldOut));
        notes.put("kafka.refused", Long.toString(refused));
        notes.put("kafka.checksum", Long.toHexString(checksum));
    }

    void restore(Map<String, String> notes) {
        if (!topic.equals(notes.get("kafka.topic"))) {
            throw new StreamException("the checkpoint is of topic " + notes.get("kafka.topic") + ", not of " + topic
                    + "; choose another directory");
        }
        String savedId = notes.getOrDefault(TOPIC_ID, NO_ID);
        if (!savedId.equals(NO_ID) && !savedId.equals(topicId)) {
            throw new StreamException("the checkpoint is of topic " + topic + " with the id " + savedId
                    + ", these brokers have one with the id " + topicId + ": it was created again, or the brokers are "
                    + "others; choose another directory of checkpoints");
        }
        try {
            notes.forEach((name, value) -> {
                if (name.startsWith(OFFSET)) {
                    offsets.put(Integer.parseInt(name.substring(OFFSET.length())), Long.parseLong(value));
                }
            });
            trained = Long.parseLong(notes.get("kafka.trained"));
            heldOut = Long.parseLong(notes.get("kafka.held-out"));
            refused = Long.parseLong(notes.get("kafka.refused"));
            checksum = Long.parseUnsignedLong(notes.get("kafka.checksum"), 16);
        } catch (NumberFormatException e) {
            throw new StreamException("the checkpoint has no notes of a learner: " + e.getMessage(), e);
        }
    }
}
