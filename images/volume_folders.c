/* Creates or removes the folder of a volume, for the helper pods of the local path provisioner:
   -p PATH -s SIZE -m MODE -a create|delete. A shell would do the same; this image has none.
   PATH ends with the name of a volume, pvc-…, so that nothing else can be removed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "pvc-"

static int is_other(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Opens a folder for reading; the descriptor of the place stays open. */
static DIR *opened(int place, const char *name) {
    int descriptor = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder;

    if (descriptor < 0)
        return NULL;
    folder = fdopendir(descriptor);
    if (folder == NULL)
        close(descriptor);
    return folder;
}

/* Moves the folders in a folder to the top, and removes its other entries. */
static int flattened(int top, const char *name, unsigned long *moved) {
    DIR *folder = opened(top, name);
    struct dirent *entry;
    char target[32];
    int result = folder == NULL ? -1 : 0;

    while (result == 0 && (entry = readdir(folder)) != NULL) {
        if (!is_other(entry) || unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            result = -1;
            break;
        }
        do {
            snprintf(target, sizeof target, ".%lu", (*moved)++);
            result = renameat2(dirfd(folder), entry->d_name, top, target, RENAME_NOREPLACE);
        } while (result != 0 && errno == EEXIST);
    }
    if (folder != NULL)
        closedir(folder);
    return result;
}

/* Removes a folder. What is in it may be deeper than a path is long, so it is moved up level by level. */
static int removed(int place, const char *name) {
    unsigned long moved = 0;
    struct dirent *entry;
    int found = 1, result = 0;
    DIR *folder = opened(place, name);

    if (folder == NULL)
        return errno == ENOENT ? 0 : -1;
    while (result == 0 && found) {
        found = 0;
        rewinddir(folder);
        while (result == 0 && (entry = readdir(folder)) != NULL) {
            if (!is_other(entry))
                continue;
            found = 1;
            if (unlinkat(dirfd(folder), entry->d_name, 0) == 0)
                continue;
            if (errno != EISDIR && errno != EPERM)
                result = -1;
            else if (flattened(dirfd(folder), entry->d_name, &moved) != 0)
                result = -1;
            else
                result = unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(folder);
    return result != 0 ? result : unlinkat(place, name, AT_REMOVEDIR);
}

int main(int count, char **arguments) {
    char *path = NULL, *name;
    const char *action = NULL;
    int option, place, result;

    while ((option = getopt(count, arguments, "p:s:m:a:")) != -1) {
        if (option == 'p')
            path = optarg;
        else if (option == 'a')
            action = optarg;
        else if (option == '?')
            return 2;
    }
    name = path == NULL ? NULL : strrchr(path, '/');
    if (name == NULL || action == NULL || strncmp(name + 1, PREFIX, strlen(PREFIX)) != 0)
        return 2;
    *name++ = '\0';
    place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0) {
        result = -1;
    } else if (strcmp(action, "create") == 0) {
        /* Pods of any user write to their volume. chmod, because mkdir applies the mask of the process. */
        result = mkdirat(place, name, 0777) != 0 && errno != EEXIST ? -1 : fchmodat(place, name, 0777, 0);
    } else if (strcmp(action, "delete") == 0) {
        result = removed(place, name);
    } else {
        return 2;
    }
    if (result != 0) {
        fprintf(stderr, "%s/%s: %s\n", path, name, strerror(errno));
        return 1;
    }
    return 0;
}
