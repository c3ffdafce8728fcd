package dev.starling.kafka;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;

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

    private final RowCodec codec;
    private final LiveModel live = new LiveModel();
    private final Queue<DeadLetter> refusals = new ConcurrentLinkedQueue<>();
    private final ModelWatch watch;
    private final int batch;
    private final Duration latency;
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
     * @param latency how long the first of them waits for others; 1 ms or more
     * @throws StreamException if the brokers do not answer, or no announced version can be served
     */
    public static StreamScoring open(KafkaCluster cluster, RowCodec codec, ModelTopic model, int batch,
            Duration latency) {
        if (batch < 1 || latency.toMillis() < 1) {
            throw new StreamException("a batch must have 1 record or more and a latency of 1 ms or more, got " + batch
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
        return new ScoringProcessor.Supplier(this);
    }

    RowCodec codec() {
        return codec;
    }

    /** Returns the model, which the caller releases. */
    ServedModel model() {
        ServedModel model = live.acquire();
        if (model == null) {
            throw new StreamException("the StreamScoring was closed before the KafkaStreams that use it; close the "
                    + "KafkaStreams first");
        }
        return model;
    }

    /** Returns the size of the largest record that can be written to a topic, in bytes. */
    long maxRecordBytes() {
        return maxRecordBytes;
    }

    /** Returns the dead letters of refused models that were not sent yet. */
    Queue<DeadLetter> refusals() {
        return refusals;
    }

    int batch() {
        return batch;
    }

    Duration latency() {
        return latency;
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
}
