package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.launch.LaunchException;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.errors.StarlingException;
import dev.starling.autograd.Tape;
import dev.starling.distributed.Group;
import dev.starling.nn.Layer;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Transport;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A caller that catches {@link StarlingException} catches every exception of the modules that an application uses. */
class ExceptionFamilyTest {
    @ParameterizedTest
    @ValueSource(classes = {Tensor.class, Tape.class, Layer.class, Transport.class, Group.class})
    void derivesEveryPublicExceptionFromOneRoot(Class<?> ofModule) throws Exception {
        URI location = ofModule.getProtectionDomain().getCodeSource().getLocation().toURI();
        List<String> names;
        if (location.getPath().endsWith(".jar")) {
            try (FileSystem jar = FileSystems.newFileSystem(Path.of(location), Map.of())) {
                names = exceptions(jar.getPath("/"));
            }
        } else {
            names = exceptions(Path.of(location));
        }
        for (String name : names) {
            Class<?> type = Class.forName(name, false, ofModule.getClassLoader());
            assertThat(!Modifier.isPublic(type.getModifiers()) || StarlingException.class.isAssignableFrom(type))
                    .as(name).isTrue();
        }
        assertThat(names.isEmpty()).as("exceptions of " + location).isEqualTo(ofModule == Tape.class);
    }

    /** A caller of a trainer, a group, a server or a launcher catches one type, which knows the rank to blame. */
    @ParameterizedTest
    @ValueSource(classes = {DistributedException.class, PeerLostException.class, CollectiveMismatchException.class,
        MembershipChangedException.class, ServerException.class, LaunchException.class,
        SettingsMismatchException.class})
    void endsRunsWithOneType(Class<?> type) {
        assertThat(RunEndedException.class).isAssignableFrom(type);
    }

    @Test
    void blamesARank() {
        assertThat(new PeerLostException(3, Duration.ZERO, "killed").rank()).isEqualTo(3);
        assertThat(new CollectiveMismatchException(7, 1, "barrier", 2, "broadcast").rank()).isEqualTo(2);
        assertThat(new SettingsMismatchException("epochs", 1, "differ").rank()).isEqualTo(1);
        assertThat(new DistributedException("no rank").rank()).isEqualTo(-1);
    }

    private static List<String> exceptions(Path root) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            return files.map(f -> root.relativize(f).toString()).filter(f -> f.endsWith("Exception.class"))
                    .map(f -> f.substring(0, f.length() - ".class".length()).replace('/', '.')).toList();
        }
    }
}
