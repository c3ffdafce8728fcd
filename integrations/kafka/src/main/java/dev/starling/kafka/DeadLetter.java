package dev.starling.kafka;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A record that cannot be used, and why. */
record DeadLetter(ConsumerRecord<byte[], byte[]> source, String error) {
    /** Returns the record for the topic of dead letters: key and value as they came, the reason in headers. */
    ProducerRecord<byte[], byte[]> toTopic(String topic) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, null, null, source.key(), source.value(),
                source.headers());
        StreamHeaders.dead(record.headers(), error, source.topic(), source.partition(), source.offset());
        return record;
    }
}
