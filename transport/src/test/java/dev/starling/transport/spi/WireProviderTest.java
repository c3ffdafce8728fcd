package dev.starling.transport.spi;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class WireProviderTest {
    /** Opens a transport with each wire. */
    static final class Program {
        private Program() { }

        public static void main(String[] args) {
            for (String provider : List.of("aeron", "local", "tcp", "ucx")) {
                try {
                    Transport.open(TransportConfig.of(provider, Secret.random())).close();
                    System.out.println("opened");
                } catch (TransportException e) {
                    System.out.println(e.problem() + ": " + e.getMessage());
                }
            }
        }
    }

    @Test
    void namesTheFlagThatIsMissing() throws Exception {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-Xmx64m", "-cp",
                System.getProperty("java.class.path"), Program.class.getName()).start();
        assertThat(process.inputReader().lines().toList()).hasSize(4).allSatisfy(line -> assertThat(line)
                .startsWith("UNAVAILABLE").contains("--add-exports java.base/jdk.internal.misc=ALL-UNNAMED"));
        assertThat(process.waitFor()).isZero();
    }
}
