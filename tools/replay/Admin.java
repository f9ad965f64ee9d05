import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one JVM: their words come separated by tabs, a command a line, behind a
 * text that ends it once it is printed, empty for a command that ends by itself. Each is answered by its
 * output and a line with nothing but a full stop.
 */
public class Admin {
    private static final long POLL_MS = 50;

    public static void main(String[] unused) throws Exception {
        PrintStream out = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(written, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            String[] words = line.split("\t");
            Thread command = new Thread(() -> run(Arrays.copyOfRange(words, 1, words.length), capture));
            command.start();
            while (command.isAlive() && !hasEnded(written, words[0])) {
                command.join(POLL_MS);
            }
            command.interrupt(); // those that go on sleep between their rounds
            command.join();
            capture.flush();
            out.println(written.toString(StandardCharsets.UTF_8) + "\n.");
            out.flush();
        }
        System.exit(0);
    }

    private static void run(String[] words, PrintStream capture) {
        try {
            MQAdminStartup.main0(words, null);
        } catch (Throwable error) {
            error.printStackTrace(capture);
        }
    }

    private static boolean hasEnded(ByteArrayOutputStream written, String end) {
        return !end.isEmpty() && written.toString(StandardCharsets.UTF_8).contains(end);
    }
}
