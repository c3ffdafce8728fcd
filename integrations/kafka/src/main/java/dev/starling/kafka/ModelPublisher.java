package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.checkpoint.Sha256;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;

/** Writes versions of models as files and announces them on a compacted topic. Confined to one thread. */
public final class ModelPublisher implements AutoCloseable {
    private final KafkaCluster cluster;
    private final String topic;
    private final Path directory;
    private final Producer<byte[], byte[]> producer;

    private ModelPublisher(KafkaCluster cluster, String topic, Path directory) {
        this.cluster = cluster;
        this.topic = topic;
        this.directory = directory;
        producer = cluster.producer(Map.of());
    }

    /**
     * Makes a publisher.
     *
     * @param topic compacted, of one partition
     * @param directory where files go; scorers must be able to read it under the same path
     */
    public static ModelPublisher of(KafkaCluster cluster, String topic, Path directory) {
        return new ModelPublisher(cluster, topic, directory.toAbsolutePath());
    }

    /**
     * Writes a version and announces it.
     *
     * @param metadata texts for the file, for example of {@link dev.starling.nn.model.ModelDescription#metadata}
     * @throws StreamException if the name cannot begin the name of a file, the file cannot be written or takes more
     *     than 2 GB, or the brokers do not acknowledge the version within the deadline
     */
    public ModelVersion publish(String name, long version, Layer model, Map<String, String> metadata) {
        ModelVersion written = write(name, version, model, metadata);
        announce(written);
        return written;
    }

    /** Throws if a model's name cannot begin the name of a file. */
    static void requireFileName(String name) {
        if (name.isBlank() || name.contains("/") || name.contains("\\") || name.contains("..")) {
            throw new StreamException("the name of a published model begins the names of its files: it must not be "
                    + "empty or contain /, \\ or .., got \"" + name + "\"");
        }
    }

    /** Writes a version's file, whole or not at all, under a name that no other content has. */
    ModelVersion write(String name, long version, Layer model, Map<String, String> metadata) {
        requireFileName(name);
        // Random, because processes in containers that share the directory may have the same number.
        Path draft = directory.resolve(name + "-" + version + "-" + UUID.randomUUID() + ".draft");
        try {
            Files.createDirectories(directory);
            SafeTensors.write(draft, model.state(), metadata);
            if (Files.size(draft) > ModelStore.MAX_BYTES) {
                throw new IOException("its file takes " + Files.size(draft) + " bytes, of which scorers read at most "
                        + ModelStore.MAX_BYTES);
            }
            String sha256 = Sha256.of(Files.readAllBytes(draft));
            Path file = directory.resolve(name + "-" + version + "-" + sha256.substring(0, 8) + ".safetensors");
            Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
            return new ModelVersion(name, version, file.toString(), sha256);
        } catch (IOException | CheckpointException e) {
            try {
                Files.deleteIfExists(draft);
            } catch (IOException left) {
                e.addSuppressed(left);
            }
            throw new StreamException(name + " version " + version + " cannot be written to " + directory + ": " + e,
                    e);
        }
    }

    /** Announces a version, and waits until the brokers have it. */
    public void announce(ModelVersion version) {
        try {
            producer.send(new ProducerRecord<>(topic, version.name().getBytes(StandardCharsets.UTF_8),
                    version.toJson())).get(cluster.deadline().toMillis() * 2, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw cluster.noAnswer("the announcement of " + version + " on topic " + topic, e);
        } catch (ExecutionException e) {
            throw cluster.failure("the announcement of " + version + " on topic " + topic, e.getCause()
                    instanceof KafkaException reason ? reason : new KafkaException(e.getCause()));
        } catch (KafkaException e) {
            throw cluster.failure("the announcement of " + version + " on topic " + topic, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new StreamException("the announcement of " + version + " was interrupted", e);
        }
    }

    @Override
    public void close() {
        producer.close(cluster.deadline());
    }
}
