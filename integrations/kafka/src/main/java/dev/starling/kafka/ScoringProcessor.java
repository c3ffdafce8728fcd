package dev.starling.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Collects the records of one task in a store and scores them together. */
final class ScoringProcessor implements Processor<byte[], byte[], byte[], byte[]> {
    private static final String STORE = "starling-waiting";

    private final StreamScoring scoring;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<Long, byte[]> store;
    private long next;
    private int waiting;

    /** Makes the processors of an application's tasks. */
    record Supplier(StreamScoring scoring) implements ProcessorSupplier<byte[], byte[], byte[], byte[]> {
        @Override
        public Processor<byte[], byte[], byte[], byte[]> get() {
            return new ScoringProcessor(scoring);
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(STORE), Serdes.Long(),
                    Serdes.ByteArray()).withCachingDisabled());
        }
    }

    private ScoringProcessor(StreamScoring scoring) {
        this.scoring = scoring;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> processorContext) {
        context = processorContext;
        store = context.getStateStore(STORE);
        try (KeyValueIterator<Long, byte[]> left = store.all()) {
            while (left.hasNext()) {
                next = Math.max(next, left.next().key + 1);
                waiting++;
            }
        }
        context.schedule(scoring.latency(), PunctuationType.WALL_CLOCK_TIME, time -> flush());
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        RecordMetadata place = context.recordMetadata().orElseThrow(
                () -> new StreamException("records must come from a topic, this one has no offset"));
        store.put(next++, WaitingRecord.encode(record, place.topic(), place.partition(), place.offset()));
        waiting++;
        if (waiting >= scoring.batch()) {
            flush();
        }
    }

    private void flush() {
        DeadLetter refusal = scoring.refusals().poll();
        while (refusal != null) {
            ConsumerRecord<byte[], byte[]> source = refusal.source();
            forwardDead(new Record<>(source.key(), source.value(), source.timestamp(), source.headers()),
                    refusal.error(), source.topic(), source.partition(), source.offset());
            refusal = scoring.refusals().poll();
        }
        if (waiting == 0) {
            return;
        }
        List<Long> keys = new ArrayList<>();
        List<WaitingRecord> records = new ArrayList<>();
        try (KeyValueIterator<Long, byte[]> all = store.all()) {
            while (all.hasNext()) {
                KeyValue<Long, byte[]> entry = all.next();
                keys.add(entry.key);
                records.add(WaitingRecord.decode(entry.value));
            }
        }
        ServedModel model = scoring.live().hold();
        try {
            forward(model, records);
        } finally {
            model.drop();
        }
        keys.forEach(store::delete);
        waiting = 0;
    }

    private void forward(ServedModel model, List<WaitingRecord> records) {
        List<byte[]> values = records.stream().map(WaitingRecord::value).toList();
        BatchScores scores = BatchScores.of(model, scoring.codec(), values);
        for (int i = 0; i < records.size(); i++) {
            WaitingRecord r = records.get(i);
            if (scores.error(i) != null) {
                forwardDead(new Record<>(r.key(), r.value(), r.timestamp(), r.headers()), scores.error(i), r.topic(),
                        r.partition(), r.offset());
            } else {
                StreamHeaders.scored(r.headers(), model.version());
                context.forward(new Record<>(r.key(), scores.result(i), r.timestamp(), r.headers()),
                        StreamScoring.RESULTS);
            }
        }
    }

    private void forwardDead(Record<byte[], byte[]> record, String error, String topic, int partition, long offset) {
        RecordHeaders headers = new RecordHeaders(record.headers());
        StreamHeaders.dead(headers, error, topic, partition, offset);
        context.forward(record.withHeaders(headers), StreamScoring.DEAD_LETTERS);
    }
}
