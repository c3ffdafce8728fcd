package dev.starling.transport.aeron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.aeron.Aeron;
import io.aeron.ErrorCode;
import io.aeron.ExclusivePublication;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.exceptions.RegistrationException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class ReservedLogsTest {
    private static final long LIVENESS_NS = TimeUnit.SECONDS.toNanos(20);
    /** Has terms of 2 MiB, three of them. */
    private static final String CHANNEL = "aeron:ipc?term-length=2m";
    private static final int TOO_MANY = 4;

    @TempDir
    private Path small;

    /** Without a check before, as if another process took the room after it. */
    @Test
    void aLogWithoutRoomFailsAndLeavesNothing() throws Exception {
        try (SmallDisk disk = SmallDisk.mount(small, "24m")) {
            MediaDriver.Context context = AeronDriver.context(disk.path().resolve("driver"), LIVENESS_NS, LIVENESS_NS)
                    .performStorageChecks(false).threadingMode(ThreadingMode.SHARED);
            try (MediaDriver driver = MediaDriver.launch(context);
                    Aeron client = Aeron.connect(new Aeron.Context().aeronDirectoryName(driver.aeronDirectoryName())
                            .epochClock(DriverClock.STEADY).errorHandler(e -> { }))) {
                List<ExclusivePublication> opened = new ArrayList<>();
                for (int i = 0; i < 2; i++) {
                    assertThatThrownBy(() -> {
                        while (opened.size() < TOO_MANY) {
                            opened.add(client.addExclusivePublication(CHANNEL, 1));
                        }
                    }).isInstanceOfSatisfying(RegistrationException.class,
                            e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.STORAGE_SPACE))
                            .hasMessageContaining("no room for");
                }
                assertThat(small.resolve("driver/publications").toFile().list()).hasSize(opened.size()).isNotEmpty();
                assertThat(opened).noneMatch(ExclusivePublication::isClosed);
            }
        }
    }
}
