package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Downloads from a loopback server that answers correctly, incorrectly or not at all. */
@Timeout(30)
class DownloadTest {
    private static final Download.Deadlines LONG =
        new Download.Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(20), Duration.ofSeconds(20));
    private static final Download.Deadlines SHORT =
        new Download.Deadlines(Duration.ofSeconds(10), Duration.ofMillis(1000), Duration.ofSeconds(20));

    @TempDir
    Path dir;
    private final byte[] content = new byte[300_000];
    private final CountDownLatch end = new CountDownLatch(1);
    private HttpServer server;
    private ExecutorService threads;

    @BeforeEach
    void start() throws IOException {
        new Random(1).nextBytes(content);
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        threads = Executors.newCachedThreadPool();
        server.setExecutor(threads);
        serve("/good", exchange -> answer(exchange, 200, content, content.length));
        server.start();
    }

    @AfterEach
    void stop() {
        end.countDown();
        server.stop(0);
        threads.shutdownNow();
    }

    @Test
    void downloadsAFileAndReportsItsProgress() throws Exception {
        Path target = dir.resolve("new/folder/file");
        List<Long> progress = new ArrayList<>();
        download("/good").to(target, LONG, (received, total) -> {
            assertThat(total).isEqualTo(content.length);
            progress.add(received);
        });
        assertThat(Files.readAllBytes(target)).isEqualTo(content);
        assertThat(progress).isSorted().endsWith((long) content.length);
        assertOnly(target);
        // Others may read it, as any new file.
        assertThat(Files.getPosixFilePermissions(target))
            .isEqualTo(Files.getPosixFilePermissions(Files.createFile(dir.resolve("any"))));
    }

    @Test
    void downloadsWithoutDeadlines() throws Exception {
        Duration forever = ChronoUnit.FOREVER.getDuration();
        Download.Deadlines none = new Download.Deadlines(forever, forever, forever);
        assertThat(none.overall().toNanos()).isEqualTo(Long.MAX_VALUE);
        Path target = dir.resolve("file");
        download("/good").to(target, none, (received, total) -> { });
        assertThat(Files.readAllBytes(target)).isEqualTo(content);
    }

    @Test
    void namesTheProblemOfADirectoryThatCannotBeMade() throws Exception {
        Path file = Files.writeString(dir.resolve("file"), "not a directory");
        assertThatThrownBy(() -> download("/good").to(file.resolve("target"), LONG, (received, total) -> { }))
            .isInstanceOf(DataException.class).hasMessageContaining("/good: FileAlreadyExistsException: " + file);
    }

    @Test
    void replacesAnOldFile() throws Exception {
        Path target = Files.writeString(dir.resolve("file"), "old");
        download("/good").to(target, LONG, (received, total) -> { });
        assertThat(Files.readAllBytes(target)).isEqualTo(content);
        assertOnly(target);
    }

    @Test
    void replacesWhatALinkPointsTo() throws Exception {
        Path old = Files.writeString(Files.createDirectory(dir.resolve("elsewhere")).resolve("file"), "old");
        Path link = Files.createSymbolicLink(dir.resolve("link"), old);
        download("/good").to(link, LONG, (received, total) -> { });
        assertThat(link).isSymbolicLink();
        assertThat(Files.readAllBytes(old)).isEqualTo(content);
        assertOnly(old);
        assertThatThrownBy(() -> download("/good").to(old.getParent(), LONG, (received, total) -> { }))
            .isInstanceOf(DataException.class).hasMessageContaining("a directory, a pipe or a device");
    }

    @Test
    void followsARedirect() throws Exception {
        serve("/moved", exchange -> {
            exchange.getResponseHeaders().add("Location", uri("/good").toString());
            answer(exchange, 302, new byte[0], -1);
        });
        Path target = dir.resolve("file");
        download("/moved").to(target, LONG, (received, total) -> { });
        assertThat(Files.readAllBytes(target)).isEqualTo(content);
    }

    @Test
    void triesTheNextMirror() throws Exception {
        serve("/missing", exchange -> answer(exchange, 404, new byte[10], 10));
        Path target = dir.resolve("file");
        download("/missing", "/good").to(target, LONG, (received, total) -> { });
        assertThat(Files.readAllBytes(target)).isEqualTo(content);
    }

    @Test
    void refusesAWrongChecksumAndKeepsTheOldFile() throws Exception {
        byte[] other = content.clone();
        other[content.length / 2] ^= 1;
        serve("/other", exchange -> answer(exchange, 200, other, other.length));
        Path target = Files.writeString(dir.resolve("file"), "old");
        assertThatThrownBy(() -> download("/other").to(target, LONG, (received, total) -> { }))
            .isInstanceOf(DataException.class)
            .hasMessageContaining(sha256(content)).hasMessageContaining(sha256(other));
        assertThat(Files.readString(target)).isEqualTo("old");
        assertOnly(target);
    }

    @Test
    void refusesABodyThatIsCutShort() throws Exception {
        serve("/cut", exchange -> answer(exchange, 200, Arrays.copyOf(content, 1000), content.length));
        fails("/cut", "bytes received: 1000");
        serve("/short", exchange -> answer(exchange, 200, Arrays.copyOf(content, 1000), 1000));
        fails("/short", "ends after 1000 of 300000 bytes");
    }

    @Test
    void cutsOffABodyThatIsTooLong() throws Exception {
        serve("/endless", exchange -> {
            exchange.sendResponseHeaders(200, 0);
            while (true) {
                exchange.getResponseBody().write(content);
            }
        });
        fails("/endless", "longer than 300000 bytes");
    }

    @Test
    void namesTheStatusOfAFailedRequest() throws Exception {
        serve("/missing", exchange -> answer(exchange, 404, "no such file".getBytes(), 12));
        fails("/missing", "HTTP status 404");
    }

    @Test
    void failsIfTheServerStallsBeforeOrWithinTheBody() throws Exception {
        serve("/silent", exchange -> hold());
        fails(SHORT, "/silent", "no byte for 1000 ms, after 0 of 300000 bytes");
        serve("/stall", exchange -> {
            exchange.sendResponseHeaders(200, content.length);
            exchange.getResponseBody().write(content, 0, 5000);
            exchange.getResponseBody().flush();
            hold();
        });
        fails(SHORT, "/stall", "no byte for 1000 ms, after 5000 of 300000 bytes");
    }

    @Test
    void failsIfTheServerSendsTooSlowly() throws Exception {
        serve("/trickle", exchange -> {
            exchange.sendResponseHeaders(200, content.length);
            for (byte b : content) {
                exchange.getResponseBody().write(b);
                exchange.getResponseBody().flush();
                sleep();
            }
        });
        Download.Deadlines second =
            new Download.Deadlines(Duration.ofSeconds(5), Duration.ofSeconds(20), Duration.ofMillis(700));
        assertThatThrownBy(() -> download("/trickle").to(dir.resolve("file"), second, (received, total) -> { }))
            .isInstanceOf(DataException.class).hasMessageContaining("not finished within 700 ms");
        assertThat(dir).isEmptyDirectory();
    }

    @Test
    void reportsThatNoServerAnswers() throws Exception {
        server.stop(0);
        fails("/good", "ConnectException");
    }

    @Test
    void stopsWhenInterrupted() {
        serve("/silent", exchange -> hold());
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> download("/silent").to(dir.resolve("file"), LONG, (received, total) -> { }))
            .isInstanceOf(DataException.class).hasMessageContaining("interrupt");
        assertThat(Thread.interrupted()).isTrue();
        assertThat(dir).isEmptyDirectory();
    }

    private void fails(String path, String reason) throws Exception {
        fails(LONG, path, reason);
    }

    private void fails(Download.Deadlines deadlines, String path, String reason) throws Exception {
        Path target = dir.resolve("file");
        assertThatThrownBy(() -> download(path).to(target, deadlines, (received, total) -> { }))
            .isInstanceOf(DataException.class).hasMessageContaining(target.toString())
            .hasMessageContaining(uri(path).toString()).hasMessageContaining(reason);
        assertThat(dir).isEmptyDirectory();
    }

    private void assertOnly(Path target) {
        assertThat(target.getParent().toFile().list()).containsExactly(target.getFileName().toString());
    }

    private Download download(String... paths) throws Exception {
        List<URI> mirrors = new ArrayList<>();
        for (String path : paths) {
            mirrors.add(uri(path));
        }
        return new Download(mirrors, content.length, sha256(content));
    }

    private URI uri(String path) {
        InetSocketAddress address = server.getAddress();
        return URI.create("http://" + address.getAddress().getHostAddress() + ":" + address.getPort() + path);
    }

    private void serve(String path, HttpHandler handler) {
        server.createContext(path, handler);
    }

    private void answer(HttpExchange exchange, int status, byte[] body, long announced) throws IOException {
        exchange.sendResponseHeaders(status, announced);
        if (announced > 0) {
            exchange.getResponseBody().write(body);
            exchange.getResponseBody().flush();
        }
        exchange.close();
    }

    private void hold() {
        try {
            end.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void sleep() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }
}
