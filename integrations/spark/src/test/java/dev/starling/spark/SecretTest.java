package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Secret;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.config.Property;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Spark writes and shows the secret of a run nowhere, also at the most detailed level of the driver's log. */
@Timeout(120)
@ExtendWith(SharedSession.class)
class SecretTest {
    private static final List<String> PAGES = List.of("/jobs/", "/stages/", "/environment/", "/executors/", "/SQL/",
            "/api/v1/applications/ID/environment", "/api/v1/applications/ID/allexecutors",
            "/api/v1/applications/ID/stages?details=true", "/api/v1/applications/ID/jobs");

    private static String page(String address) {
        try (HttpClient client = HttpClient.newHttpClient()) {
            HttpResponse<String> page = client.send(HttpRequest.newBuilder(URI.create(address)).build(),
                    HttpResponse.BodyHandlers.ofString());
            assertThat(page.statusCode()).as(address).isEqualTo(200);
            return page.body();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void read(Path directory, Map<String, String> into) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.filter(Files::isRegularFile).filter(f -> !f.toString().endsWith(".jar")).toList()) {
                into.put(file.toString(), Files.readString(file, StandardCharsets.ISO_8859_1));
            }
        }
    }

    /** Trains and returns what the driver logged. */
    private static String fit(SparkTrainer trainer, Dataset<Row> points, Secret secret) {
        Queue<String> said = new ConcurrentLinkedQueue<>();
        AbstractAppender appender = new AbstractAppender("heard", null, null, true, Property.EMPTY_ARRAY) {
            @Override
            public void append(LogEvent event) {
                said.add(event.getLoggerName() + ' ' + event.getMessage().getFormattedMessage() + event.getThrown());
            }
        };
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                said.add(record.getMessage() + ' ' + List.of(record.getParameters() == null ? new Object[0]
                        : record.getParameters()));
            }

            @Override
            public void flush() {
            }

            @Override
            public void close() {
            }
        };
        Configuration logging = ((LoggerContext) LogManager.getContext(false)).getConfiguration();
        Logger ours = Logger.getLogger("dev.starling");
        appender.start();
        logging.getRootLogger().addAppender(appender, Level.ALL, null);
        logging.getRootLogger().setLevel(Level.ALL);
        ours.addHandler(handler);
        ours.setLevel(java.util.logging.Level.ALL);
        ((LoggerContext) LogManager.getContext(false)).updateLoggers();
        try {
            trainer.fit(points, secret);
        } finally {
            logging.getRootLogger().setLevel(Level.WARN);
            logging.getRootLogger().removeAppender("heard");
            ((LoggerContext) LogManager.getContext(false)).updateLoggers();
            ours.setLevel(null);
            ours.removeHandler(handler);
        }
        return String.join("\n", said);
    }

    @Test
    void isInNoLogAndOnNoPage(@TempDir Path directory) throws IOException {
        SparkContext context = SharedSession.get().sparkContext();
        SharedSession.points(100, 800).write().parquet(directory + "/points");
        Secret barrier = Secret.random();
        Secret elastic = Secret.random();
        SparkTrainer trainer = SparkTrainerTest.trainer().epochs(1);
        Dataset<Row> points = SharedSession.get().read().parquet(directory + "/points");
        Map<String, String> texts = new TreeMap<>();
        texts.put("driver's log", fit(trainer, points, barrier));
        texts.put("driver's log, elastic", fit(trainer.elastic(), points, elastic));
        for (String page : PAGES) {
            texts.put(page, page(context.uiWebUrl().get() + page.replace("ID", context.applicationId())));
        }
        read(Path.of(System.getenv("SPARK_HOME"), "work", context.applicationId()), texts);
        try (Stream<Path> logs = Files.list(SharedSession.events())) {
            for (Path log : logs.filter(p -> p.toString().contains(context.applicationId())).toList()) {
                read(log, texts);
            }
        }
        // Each of these places has been read.
        assertThat(texts.get("driver's log")).contains("barrier").contains("DAGScheduler");
        assertThat(texts.get("/api/v1/applications/ID/environment")).contains("spark.executor.extraJavaOptions");
        assertThat(texts.entrySet()).anyMatch(e -> e.getKey().endsWith("stderr")
                && e.getValue().contains("Finished task"));
        assertThat(texts.entrySet()).anyMatch(e -> e.getKey().contains("events")
                && e.getValue().contains("SparkListenerTaskEnd"));
        texts.forEach((place, text) -> assertThat(Stream.of(barrier, elastic).anyMatch(secret ->
                text.toLowerCase(Locale.ROOT).contains(secret.toHex().toLowerCase(Locale.ROOT)))).as(place).isFalse());
    }
}
