/**
 * What goes on inside, as events of the JDK's Flight Recorder, and pages that show them.
 *
 * <p>Events cost next to nothing until a recording asks for them, with {@link dev.starling.tensor.profile.Profiler},
 * {@code jcmd JFR.start} or {@code -XX:StartFlightRecording}.
 */
package dev.starling.tensor.profile;
