/* Creates or removes the folder of a volume, for the helper pods of the local path provisioner:
   -p PATH -s SIZE -m MODE -a create|delete. A shell would do the same; this image has none. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int removed(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

int main(int count, char **arguments) {
    const char *path = NULL, *action = NULL;
    int option, result;

    while ((option = getopt(count, arguments, "p:s:m:a:")) != -1) {
        if (option == 'p')
            path = optarg;
        else if (option == 'a')
            action = optarg;
        else if (option == '?')
            return 2;
    }
    if (path == NULL || action == NULL)
        return 2;
    if (strcmp(action, "create") == 0) {
        /* Pods of any user write to their volume. chmod, because mkdir applies the mask of the process. */
        result = mkdir(path, 0777) != 0 && errno != EEXIST ? -1 : chmod(path, 0777);
    } else if (strcmp(action, "delete") == 0) {
        result = nftw(path, removed, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
        if (result != 0 && errno == ENOENT)
            result = 0;
    } else {
        return 2;
    }
    if (result != 0) {
        perror(path);
        return 1;
    }
    return 0;
}
