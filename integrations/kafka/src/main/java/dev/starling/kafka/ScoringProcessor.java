package dev.starling.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.header.Headers;
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
    /** Upper bound of the bytes that the changelog adds to a stored record. */
    private static final int CHANGELOG_OVERHEAD = 128;

    private final StreamScoring scoring;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<Long, byte[]> store;
    private long next;
    private int waiting;

    /** Creates the processors of an application's tasks. */
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
        byte[] stored = WaitingRecord.encode(record, place.topic(), place.partition(), place.offset());
        if (stored.length + CHANGELOG_OVERHEAD > scoring.maxRecordBytes()) {
            forward(DeadLetter.of(record.key(), record.value(), record.headers(), record.timestamp(), "a record that "
                    + "waits for its batch takes " + stored.length + " bytes, max.request.size is "
                    + scoring.maxRecordBytes(), place.topic(), place.partition(), place.offset()));
            return;
        }
        store.put(next++, stored);
        waiting++;
        if (waiting >= scoring.batch()) {
            flush();
        }
    }

    private void flush() {
        DeadLetter refusal = scoring.refusals().poll();
        while (refusal != null) {
            forward(refusal);
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
        ServedModel model = scoring.model();
        try {
            forward(BatchScores.of(model, scoring.codec(), records.stream().map(WaitingRecord::value).toList()),
                    records);
        } finally {
            model.release();
        }
        keys.forEach(store::delete);
        waiting = 0;
    }

    private void forward(BatchScores scores, List<WaitingRecord> records) {
        for (int i = 0; i < records.size(); i++) {
            WaitingRecord r = records.get(i);
            Headers headers = scores.headers(i, r.key(), r.headers(), scoring.maxRecordBytes());
            if (headers == null) {
                forward(DeadLetter.of(r.key(), r.value(), r.headers(), r.timestamp(), scores.error(i), r.topic(),
                        r.partition(), r.offset()));
            } else {
                context.forward(new Record<>(r.key(), scores.result(i), r.timestamp(), headers),
                        StreamScoring.RESULTS);
            }
        }
    }

    private void forward(DeadLetter letter) {
        // Kafka Streams rejects records with a negative timestamp.
        context.forward(new Record<>(letter.key(), letter.value(), Math.max(0, letter.timestamp()), letter.headers()),
                StreamScoring.DEAD_LETTERS);
    }
}
