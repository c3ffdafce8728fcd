package dev.starling.cuda.emulated;

import org.junit.platform.launcher.LauncherSession;
import org.junit.platform.launcher.LauncherSessionListener;

/**
 * Loads the played libraries before any test: bindings that once looked for NVIDIA's in vain never look again in this
 * process.
 */
public final class PlayedFirst implements LauncherSessionListener {
    @Override
    public void launcherSessionOpened(LauncherSession session) {
        if (PlayedLibraries.arePossible()) {
            PlayedLibraries.load();
        }
    }
}
