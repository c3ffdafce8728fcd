package dev.starling.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
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

/**
 * Scoring as a processor of Kafka Streams: one model for all stream threads of an application, swapped when a version
 * is announced. Results and dead letters are those of {@link KafkaScorer}. Close the {@code KafkaStreams} first.
 *
 * <pre>{@code
 * try (StreamScoring scoring = StreamScoring.open(cluster, RowCodec.floats(16), ModelTopic.of("models", "fraud"));
 *         KafkaStreams streams = new KafkaStreams(
 *                 scoring.topology("payments", "scores", "payments.dead"), new StreamsConfig(settings))) {
 *     streams.start();
 * }
 * }</pre>
 *
 * <p>Set {@code processing.guarantee} to {@code exactly_once_v2}. Records that wait for their batch are kept in
 * a state store whose changelog is part of the transaction; this makes scoring in batches exactly-once.
 */
public final class StreamScoring implements AutoCloseable {
    /** The name of the child node that receives results. */
    public static final String RESULTS = "starling-results";
    /** The name of the child node that receives dead letters. */
    public static final String DEAD_LETTERS = "starling-dead-letters";

    private static final String STORE = "starling-waiting";
    private static final Duration MAX_LATENCY = Duration.ofDays(1);
    /** Upper bound of the bytes that the changelog adds to a stored record. */
    private static final int CHANGELOG_OVERHEAD = 128;

    private final RowCodec codec;
    private final LiveModel live = new LiveModel();
    /** The dead letters of refused models that were not sent yet. */
    private final Queue<DeadLetter> refusals = new ConcurrentLinkedQueue<>();
    private final ModelWatch watch;
    private final int batch;
    private final Duration latency;
    /** The size of the largest record that can be written to a topic. */
    private final long maxRecordBytes;

    private StreamScoring(KafkaCluster cluster, RowCodec codec, ModelTopic model, int batch, Duration latency) {
        this.codec = codec;
        this.batch = batch;
        this.latency = latency;
        maxRecordBytes = cluster.maxRecordBytes();
        watch = new ModelWatch(cluster, model, codec.columns(), live, refusals::add);
        try {
            watch.requireModel(refusals);
        } catch (StreamException e) {
            close();
            throw e;
        }
    }

    /** Loads the announced model, for batches of up to 1,024 records that wait up to 20 ms. */
    public static StreamScoring open(KafkaCluster cluster, RowCodec codec, ModelTopic model) {
        return open(cluster, codec, model, 1024, Duration.ofMillis(20));
    }

    /**
     * Connects and loads the announced model.
     *
     * @param batch the maximum number of records of a task that are scored together
     * @param latency how long the first of them waits for others; 1 ms to 1 day
     * @throws StreamException if the brokers do not answer, or no announced version can be served
     */
    public static StreamScoring open(KafkaCluster cluster, RowCodec codec, ModelTopic model, int batch,
            Duration latency) {
        if (batch < 1 || latency.compareTo(Duration.ofMillis(1)) < 0 || latency.compareTo(MAX_LATENCY) > 0) {
            throw new StreamException("a batch must have 1 record or more and a latency of 1 ms to 1 day, got " + batch
                    + " and " + latency);
        }
        return new StreamScoring(cluster, codec, model, batch, latency);
    }

    /** Returns a topology that reads one topic and writes results and dead letters. */
    public Topology topology(String from, String to, String deadLetters) {
        ByteArraySerializer bytes = new ByteArraySerializer();
        return new Topology()
                .addSource("starling-source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), from)
                .addProcessor("starling-scoring", processor(), "starling-source")
                .addSink(RESULTS, to, bytes, bytes, "starling-scoring")
                .addSink(DEAD_LETTERS, deadLetters, bytes, bytes, "starling-scoring");
    }

    /**
     * Returns the processor for an application's own topology, which must give it two children: {@link #RESULTS} and
     * {@link #DEAD_LETTERS}.
     */
    public ProcessorSupplier<byte[], byte[], byte[], byte[]> processor() {
        return new Processors();
    }

    /** Returns the model, which the caller releases. */
    private ServedModel model() {
        ServedModel model = live.acquire();
        if (model == null) {
            throw new StreamException("the StreamScoring was closed before the KafkaStreams that use it; close the "
                    + "KafkaStreams first");
        }
        return model;
    }

    /** Returns the version that scores the next batch. */
    public ModelVersion serving() {
        return live.version();
    }

    /** Stops watching models and frees the model's memory. */
    @Override
    public void close() {
        watch.close();
        live.close();
    }

    /** Creates the processors of an application's tasks. */
    private final class Processors implements ProcessorSupplier<byte[], byte[], byte[], byte[]> {
        @Override
        public Processor<byte[], byte[], byte[], byte[]> get() {
            return new TaskProcessor();
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(STORE), Serdes.Long(),
                    Serdes.ByteArray()).withCachingDisabled());
        }
    }

    /** Collects the records of one task in a store and scores them together. */
    private final class TaskProcessor implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<Long, byte[]> store;
        private long next;
        private int waiting;

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
            context.schedule(latency, PunctuationType.WALL_CLOCK_TIME, time -> flush());
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata place = context.recordMetadata().orElseThrow(
                    () -> new StreamException("records must come from a topic, this one has no offset"));
            byte[] stored = WaitingRecord.encode(record, place.topic(), place.partition(), place.offset());
            long bytes = stored.length + CHANGELOG_OVERHEAD;
            if (bytes > maxRecordBytes) {
                forward(DeadLetter.of(record.key(), record.value(), record.headers(), record.timestamp(),
                        "a record that waits for its batch takes up to " + bytes + " bytes, max.request.size is "
                        + maxRecordBytes, place.topic(), place.partition(), place.offset(), maxRecordBytes));
                return;
            }
            store.put(next++, stored);
            waiting++;
            if (waiting >= batch) {
                flush();
            }
        }

        private void flush() {
            DeadLetter refusal = refusals.poll();
            while (refusal != null) {
                forward(refusal);
                refusal = refusals.poll();
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
            ServedModel model = model();
            try {
                forward(BatchScores.of(model, codec, records.stream().map(WaitingRecord::value).toList()), records);
            } finally {
                model.release();
            }
            keys.forEach(store::delete);
            waiting = 0;
        }

        private void forward(BatchScores scores, List<WaitingRecord> records) {
            for (int i = 0; i < records.size(); i++) {
                WaitingRecord r = records.get(i);
                Headers headers = scores.headers(i, r.key(), r.headers(), maxRecordBytes);
                if (headers == null) {
                    forward(DeadLetter.of(r.key(), r.value(), r.headers(), r.timestamp(), scores.error(i), r.topic(),
                            r.partition(), r.offset(), maxRecordBytes));
                } else {
                    context.forward(new Record<>(r.key(), scores.result(i), r.timestamp(), headers), RESULTS);
                }
            }
        }

        private void forward(DeadLetter letter) {
            // Kafka Streams rejects records with a negative timestamp.
            context.forward(new Record<>(letter.key(), letter.value(), Math.max(0, letter.timestamp()),
                    letter.headers()), DEAD_LETTERS);
        }
    }
}
