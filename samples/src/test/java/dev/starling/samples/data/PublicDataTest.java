package dev.starling.samples.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpServer;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Download;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests finding, downloading and unpacking of the public data sets with small files from a loopback server. */
@Timeout(60)
class PublicDataTest {
    private static final int RECORDS = 2;

    @TempDir
    Path dir;
    private final Map<String, byte[]> served = new TreeMap<>();
    private final AtomicInteger requests = new AtomicInteger();
    private final ByteArrayOutputStream logged = new ByteArrayOutputStream();
    private HttpServer server;
    private DataDirectory directory;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            requests.incrementAndGet();
            byte[] body = served.get(exchange.getRequestURI().getPath().substring(1));
            exchange.sendResponseHeaders(body == null ? 404 : 200, body == null ? -1 : body.length);
            if (body != null) {
                exchange.getResponseBody().write(body);
            }
            exchange.close();
        });
        server.start();
        Duration second = Duration.ofSeconds(5);
        directory = new DataDirectory(dir.resolve("data"), new PrintStream(logged, true),
            new Download.Deadlines(second, second, second));
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    @Test
    void downloadsMnistOnceAfterAMessage() throws Exception {
        List<Download> files = mnist(28);
        Split split = Mnist.load(directory, files);
        assertThat(split.train().labels()).containsExactly(3, 1, 4);
        assertThat(split.test().labels()).containsExactly(5, 9);
        assertThat(split.train().pixels()).hasSize(3 * 784).startsWith(0, 1, 2);
        assertThat(requests).hasValue(4);
        for (Download file : files) {
            assertThat(logged.toString()).contains("Downloading " + file.mirrors().getFirst() + " to "
                + dir.resolve("data/mnist").resolve(file.fileName()));
        }
        logged.reset();
        Mnist.load(directory, files);
        assertThat(requests).hasValue(4);
        assertThat(logged.toString()).isEmpty();
    }

    @Test
    void findsMnistInTheDirectoryItselfAndUncompressed() throws Exception {
        List<Download> files = mnist(28);
        Files.createDirectories(directory.root());
        for (Download file : files) {
            byte[] plain = new GZIPInputStream(
                new ByteArrayInputStream(served.get(file.fileName()))).readAllBytes();
            Files.write(directory.root().resolve(file.fileName().replace(".gz", "")), plain);
        }
        assertThat(Mnist.load(directory, files).test().labels()).containsExactly(5, 9);
        assertThat(requests).hasValue(0);
    }

    @Test
    void namesTheFilesToProvideWhenOffline() throws Exception {
        List<Download> files = mnist(28);
        server.stop(0);
        assertThatThrownBy(() -> Mnist.load(directory, files)).isInstanceOf(DataException.class)
            .hasMessageContaining("put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
                + "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz into " + dir.resolve("data/mnist"))
            .hasMessageContaining("--data DIR").hasMessageContaining("ConnectException");
        assertThatThrownBy(() -> Cifar10.load(directory, archive(new byte[0]), RECORDS))
            .isInstanceOf(DataException.class)
            .hasMessageContaining("put cifar-10-binary.tar.gz into " + dir.resolve("data/cifar10"));
    }

    @Test
    void refusesImagesOfAnotherSize() throws Exception {
        List<Download> files = mnist(27);
        assertThatThrownBy(() -> Mnist.load(directory, files)).isInstanceOf(DataException.class)
            .hasMessageContaining("train-images-idx3-ubyte.gz").hasMessageContaining("27x27");
    }

    @Test
    void downloadsAndUnpacksCifar() throws Exception {
        Split split = Cifar10.load(directory, archive(cifarArchive()), RECORDS);
        assertThat(split.train().labels()).containsExactly(0, 1, 1, 2, 2, 3, 3, 4, 4, 5);
        assertThat(split.test().labels()).containsExactly(5, 6);
        assertThat(split.train().imageSize()).isEqualTo(3072);
        assertThat(directory.root().resolve("cifar10").toFile().list()).hasSize(6);
        assertThat(logged.toString()).contains("Downloading", "100 %", "Unpacking");
        server.stop(0);
        assertThat(Cifar10.load(directory, archive(cifarArchive()), RECORDS).test().labels()).containsExactly(5, 6);
    }

    @Test
    void unpacksAnArchiveOfTheUserAndKeepsIt() throws Exception {
        Files.createDirectories(directory.root());
        Path existing = Files.write(directory.root().resolve("cifar-10-binary.tar.gz"), cifarArchive());
        assertThat(Cifar10.load(directory, archive(new byte[0]), RECORDS).test().labels()).containsExactly(5, 6);
        assertThat(existing).exists();
        assertThat(requests).hasValue(0);
    }

    @Test
    void refusesATruncatedCifarFile() throws Exception {
        Download archive = archive(cifarArchive());
        Cifar10.load(directory, archive, RECORDS);
        Path file = directory.root().resolve("cifar10/data_batch_3.bin");
        Files.write(file, new byte[3073]);
        assertThatThrownBy(() -> Cifar10.load(directory, archive, RECORDS)).isInstanceOf(DataException.class)
            .hasMessageContaining(file.toString()).hasMessageContaining("found 3073 bytes");
    }

    @Test
    void usesTheConventionalCacheDirectory() {
        assertThat(DataDirectory.cache("/xdg")).isEqualTo(Path.of("/xdg/starling"));
        assertThat(DataDirectory.cache("")).isEqualTo(Path.of(System.getProperty("user.home"), ".cache", "starling"));
        assertThat(DataDirectory.cache(null)).isEqualTo(DataDirectory.cache(""));
        assertThat(DataDirectory.of(Path.of("data"), System.err).root()).isEqualTo(Path.of("data"));
    }

    @Test
    void showsProgressOnOneLineOfATerminal() {
        try (TransferBar bar = new TransferBar(new PrintStream(logged, true), true, () -> 80)) {
            bar.advance(0, 2_000_000);
            bar.advance(1_000_000, 2_000_000);
            bar.advance(1_000_000, 2_000_000);
            bar.advance(2_000_000, 2_000_000);
        }
        String[] lines = logged.toString().split("\r\u001b\\[K");
        assertThat(lines).hasSize(4);
        assertThat(lines[2]).contains("[" + "=".repeat(15) + " ".repeat(15) + "]", " 50 %", "1.0 of 2.0 MB");
        assertThat(lines[3]).contains("=".repeat(30), "100 %").endsWith("\r" + System.lineSeparator());
    }

    @Test
    void fitsIntoANarrowTerminal() {
        try (TransferBar bar = new TransferBar(new PrintStream(logged, true), true, () -> 40)) {
            bar.advance(170_498_071, 170_498_071);
        }
        assertThat(logged.toString()).contains("  [========] 100 %  170.5 of 170.5 MB\u001b");
    }

    private List<Download> mnist(int side) throws Exception {
        return List.of(
            download("train-images-idx3-ubyte.gz", gzip(idx(new int[] {3, side, side}))),
            download("train-labels-idx1-ubyte.gz", gzip(idx(new int[] {3}, 3, 1, 4))),
            download("t10k-images-idx3-ubyte.gz", gzip(idx(new int[] {2, side, side}))),
            download("t10k-labels-idx1-ubyte.gz", gzip(idx(new int[] {2}, 5, 9))));
    }

    private Download archive(byte[] content) throws Exception {
        return download("cifar-10-binary.tar.gz", content);
    }

    private Download download(String name, byte[] content) throws Exception {
        served.put(name, content);
        String sha256 = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/" + name);
        return new Download(List.of(uri), content.length, sha256);
    }

    /** Returns an archive made by the system's tar, with the layout of the official one. */
    private byte[] cifarArchive() throws Exception {
        Path folder = Files.createDirectories(dir.resolve("made/cifar-10-batches-bin"));
        List<String> names = new ArrayList<>(Cifar10.TRAIN);
        names.add(Cifar10.TEST);
        Files.writeString(folder.resolve("batches.meta.txt"), "airplane");
        for (int i = 0; i < names.size(); i++) {
            byte[] file = new byte[RECORDS * 3073];
            file[0] = (byte) i;
            file[3073] = (byte) (i + 1);
            Files.write(folder.resolve(names.get(i)), file);
        }
        Path archive = dir.resolve("made.tar.gz");
        assertThat(new ProcessBuilder("tar", "-czf", archive.toString(), "-C", dir.resolve("made").toString(),
            "cifar-10-batches-bin").inheritIO().start().waitFor()).isZero();
        return Files.readAllBytes(archive);
    }

    /** Returns an IDX file with the given elements, or with 0, 1, 2, … if none are given. */
    private static byte[] idx(int[] dims, int... elements) {
        int length = 1;
        for (int dim : dims) {
            length *= dim;
        }
        ByteBuffer file = ByteBuffer.allocate(4 + 4 * dims.length + length).putInt(0x0800 | dims.length);
        for (int dim : dims) {
            file.putInt(dim);
        }
        for (int i = 0; i < length; i++) {
            file.put((byte) (elements.length == 0 ? i : elements[i]));
        }
        return file.array();
    }

    private static byte[] gzip(byte[] plain) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(bytes)) {
            out.write(plain);
        }
        return bytes.toByteArray();
    }
}
