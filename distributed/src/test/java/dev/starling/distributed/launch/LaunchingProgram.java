package dev.starling.distributed.launch;

import java.time.Duration;
import java.util.List;

/**
 * A launcher that a test kills: launches the command in its arguments, three times, and prints the directory of the
 * files.
 */
final class LaunchingProgram {
    private LaunchingProgram() {
    }

    public static void main(String[] arguments) {
        Launcher launcher = Launcher.of(List.of(arguments)).processes(3).grace(Duration.ofSeconds(1));
        if (System.getenv("FORWARD") != null) {
            launcher = launcher.forwardSignals();
        }
        try (Launch launch = launcher.start()) {
            System.out.println("directory " + launch.directory());
            System.exit(launch.await());
        } catch (LaunchException e) {
            System.err.println(e.getMessage());
            System.exit(e.status());
        }
    }
}
